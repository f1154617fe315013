"""What `nvidia.com/gpu` asks for on a node: whole cards, or replicas or MIG instances if its agent says so.

A pod that asks for whole cards by that name, and for nothing else, may be served by any such node: its
request means another one there (`request_on_unit`). Whole cards are looked for first, on all nodes.

A pod may say besides that it wants only a part of each card. Where the kubelet counts the cards, it gives
each to one pod, so there the pod gets them whole.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Final

import numpy as np

from berth_crds import device_types, names
from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.nodes import facts

MOST_REMEMBERED: Final = 1024
OF_CARDS: Final = ("", device_facts.COUNTED_CARD)


def request_on_unit(
    request: requests.DeviceRequest, demand: facts.NodeDemand, unit: str
) -> requests.DeviceRequest:
    """Return what a request means on a node of this unit."""
    return _in_units(request, unit) if _means_another(request, demand, unit) else request


def signatures_by_unit(
    table: node_table.NodeTable, signature: signatures.Signature
) -> Iterator[signatures.Signature]:
    """Yield the signature as it is on the nodes of each unit, where the request means something else.

    The order is that of names, not the one in which nodes became known.
    """
    if len(table.gpu_units) > 1 and not signature.gpu_unit:
        for unit in sorted(table.gpu_units.of):
            if _means_another(signature.request, signature.demand, unit):
                yield signatures.of(_in_units(signature.request, unit), signature.demand, gpu_unit=unit)


def nodes_meant(
    table: node_table.NodeTable, rows: node_table.Rows, signature: signatures.Signature
) -> node_table.Mask | None:
    """Return which of these nodes the signature is for; None where it means the same on all nodes."""
    if len(table.gpu_units) == 1:
        return None
    mask: node_table.Mask
    if signature.gpu_unit:
        code = table.gpu_units.get(signature.gpu_unit)
        mask = table.gpu_unit[rows] == (node_table.ABSENT if code is None else code)
        return mask
    units = table.gpu_units.of.items()
    elsewhere = [code for unit, code in units if _means_another(signature.request, signature.demand, unit)]
    if not elsewhere:
        return None
    mask = ~np.isin(table.gpu_unit[rows], elsewhere)
    return mask


def stands_for_pieces(table: node_table.NodeTable, rows: node_table.Rows) -> node_table.Mask:
    """Return the nodes on which nvidia.com/gpu asks for replicas or instances."""
    of_cards = [table.gpu_units.of[unit] for unit in OF_CARDS if unit in table.gpu_units.of]
    mask: node_table.Mask = ~np.isin(table.gpu_unit[rows], of_cards)
    return mask


def _means_another(request: requests.DeviceRequest, demand: facts.NodeDemand, unit: str) -> bool:
    """Whether a request means another one on nodes of this unit."""
    if unit == device_facts.COUNTED_CARD:
        return _parts_by_gpu_name(request, demand)
    return bool(unit) and _by_gpu_name(request, demand)


def _parts_by_gpu_name(request: requests.DeviceRequest, demand: facts.NodeDemand) -> bool:
    """Whether parts of cards are asked for, and the cards by the name nvidia.com/gpu."""
    asked = dict(demand.device_resources).get(names.NVIDIA_GPU, 0)
    return bool(request.need.shares) and asked > request.need.whole_cards


def _by_gpu_name(request: requests.DeviceRequest, demand: facts.NodeDemand) -> bool:
    """Whether whole cards of any size are asked for, all by the name nvidia.com/gpu, wherever they lie."""
    need = request.need
    if not need.whole_cards or need.shares or need.instances or need.replicas:
        return False
    if request.grouping.restricts_sets or request.conditions.least_memory:
        return False
    asked = dict(demand.device_resources)
    cards = asked.keys() - device_types.BY_RESOURCE.keys()
    return cards == {names.NVIDIA_GPU} and asked.get(names.NVIDIA_GPU) == need.whole_cards


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def _in_units(request: requests.DeviceRequest, unit: str) -> requests.DeviceRequest:
    """Return a request for units, without a scope that is only preferred if these are no cards."""
    containers = tuple(
        dataclasses.replace(container, asks=tuple(_in_unit(ask, unit) for ask in container.asks))
        for container in request.containers
    )
    if unit != device_facts.COUNTED_CARD:
        grouping = dataclasses.replace(request.grouping, scope=None)
        return dataclasses.replace(request, containers=containers, grouping=grouping)
    least = max(request.conditions.memory_at_least, *(ask.memory for ask in request.need.shares))
    conditions = dataclasses.replace(request.conditions, memory_at_least=least)
    return dataclasses.replace(request, containers=containers, conditions=conditions)


def _in_unit(ask: requests.Ask, unit: str) -> requests.Ask:
    if not isinstance(ask, requests.Gpus):
        return ask
    if unit == device_facts.COUNTED_CARD:
        return requests.cards(ask.count)
    return (
        requests.Replicas(ask.count) if unit == device_facts.REPLICA else requests.Instances(unit, ask.count)
    )
