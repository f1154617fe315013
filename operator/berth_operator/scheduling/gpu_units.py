"""What `nvidia.com/gpu` asks for on a node: whole cards, or replicas or MIG instances if its agent says so.

A pod that asks for whole cards by that name, and for nothing else, may be served by any such node: its
request means another one there (`request_on_unit`). Whole cards are looked for first, on all nodes.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Final

from berth_crds import names
from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

MOST_REMEMBERED: Final = 1024
NAMES: Final = frozenset({names.NVIDIA_GPU, names.RDMA, names.FPGA})


def request_on_unit(request: requests.Request, demand: facts.Demand, unit: str) -> requests.Request:
    """Return what a request means on a node of this unit."""
    return _in_units(request, unit) if unit and _by_gpu_name(request, demand) else request


def variants(table: node_table.NodeTable, question: questions.Question) -> Iterator[questions.Question]:
    """Yield the question as it is put to the nodes of each unit, where the request means something else."""
    if len(table.gpu_units) > 1 and not question.unit and _by_gpu_name(question.request, question.demand):
        for unit in table.gpu_units.of:
            if unit:
                yield questions.of(_in_units(question.request, unit), question.demand, unit=unit)


def nodes_asked(
    table: node_table.NodeTable, rows: node_table.Rows, question: questions.Question
) -> node_table.Mask | None:
    """Return which of these nodes the question is put to; None where it means the same on all nodes."""
    if len(table.gpu_units) == 1 or not (question.unit or _by_gpu_name(question.request, question.demand)):
        return None
    code = table.gpu_units.get(question.unit)
    mask: node_table.Mask = table.gpu_unit[rows] == (node_table.ABSENT if code is None else code)
    return mask


def _by_gpu_name(request: requests.Request, demand: facts.Demand) -> bool:
    """Whether whole cards of any size are asked for, all by the name nvidia.com/gpu, wherever they lie."""
    need = request.need
    if not need.whole or need.shares or need.instances or need.replicas:
        return False
    if request.grouping.bound or request.conditions.memory_at_least:
        return False
    asked = dict(demand.device_resources)
    return asked.keys() <= NAMES and asked.get(names.NVIDIA_GPU) == need.whole


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def _in_units(request: requests.Request, unit: str) -> requests.Request:
    """Return a request with units in place of whole cards, without a scope that is only preferred."""
    containers = tuple(
        dataclasses.replace(container, asks=tuple(_in_unit(ask, unit) for ask in container.asks))
        for container in request.containers
    )
    grouping = dataclasses.replace(request.grouping, scope=None)
    return dataclasses.replace(request, containers=containers, grouping=grouping)


def _in_unit(ask: requests.Ask, unit: str) -> requests.Ask:
    if not isinstance(ask, requests.Gpus):
        return ask
    return requests.Replicas(ask.count) if unit == devices.REPLICA else requests.Instances(unit, ask.count)
