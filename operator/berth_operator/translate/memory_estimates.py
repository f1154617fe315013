"""How many bytes of memory it takes to keep what a pod asks for: an estimate, and rather too high."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from berth_operator.scheduling import allocation_recovery, holds
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import holdings

THING: Final = 80  # Bytes of what is named, and of its place in a set, apart from its words.


def of(request: requests.Request, demand: facts.Demand, small: tuple[requests.SmallAmount, ...] = ()) -> int:
    """Weigh what a pod asks of devices and of its node."""
    written = itertools.chain.from_iterable((one.text, one.guess) for one in small)
    words = itertools.chain(_of_devices(request), _of_node(demand), _of_place(demand.where), written)
    return THING * (request.size + demand.size + len(small)) + sum(map(sys.getsizeof, words))


def of_bound(
    hold: holds.Hold, nameless: allocation_recovery.Nameless | None, where: facts.Where | None
) -> int:
    """Weigh what is known of a bound pod, apart from the cards that its record names."""
    words = [*(name for name, _ in hold.amounts), *(one for one in hold.marked if isinstance(one, str))]
    if nameless is not None:
        words += (name for name, _ in nameless.starts)
        words += nameless.plugged or ()
    if where is not None:
        words += _of_place(where)
    return THING * (len(words) + len(hold.host_ports)) + sum(map(sys.getsizeof, words))


def of_taken(amounts: facts.Amounts, asked: holdings.Asked, ports: Sequence[facts.HostPort]) -> int:
    """Weigh what a bound pod takes, apart from which pod it is."""
    words = [*(name for name, _ in amounts), *(name for name, _ in asked.starts), *asked.plugged]
    return THING * (len(words) + len(ports)) + sum(map(sys.getsizeof, words))


def _of_devices(request: requests.Request) -> Iterator[str]:
    asked, manner = request.conditions, request.manner
    yield from (one.name for one in request.containers)
    yield from (asked.pattern, asked.avoid_pattern)
    yield from itertools.chain(asked.models, asked.avoid_models, asked.spelt, asked.uuids, asked.avoid_uuids)
    yield from itertools.chain.from_iterable((*manner.labels, *manner.function_labels))


def _of_node(demand: facts.Demand) -> Iterator[str]:
    return (name for name, _ in (*demand.amounts, *demand.served))


def _of_place(where: facts.Where) -> Iterator[str]:
    yield from itertools.chain.from_iterable(where.selector)
    for toleration in where.tolerations:
        yield from (toleration.key, toleration.operator, toleration.value, toleration.effect)
    for term in where.affinity or ():
        for one in (*term.labels, *term.fields):
            yield from (one.key, one.operator, *one.values)
