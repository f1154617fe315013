"""What others would have to give up, done as the sentence says it, by somebody who knows only the sentence.

The sentence names devices, pods, or amounts; exactly these are given back on a copy of
the node, and nothing that goes unsaid: a device that is freed leaves cpu and memory to
whoever had it.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from berth_operator.scheduling import decisions
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from scheduling.explain import clusters

Doing = Callable[[Inventory, re.Match[str]], None]
AMOUNT: Final = r"(?:(?P<core>\d+) % ?(?:core)?)?(?: and )?(?:(?P<memory>\d+) bytes)?"


def done(inventory: Inventory, sentence: str) -> Inventory:
    """Do on a copy of a node what a sentence asks for."""
    clause = sentence.removeprefix("would fit if ")
    for pattern, doing in DOINGS:
        found = re.fullmatch(pattern, clause)
        if found is not None:
            made = clusters.alone(inventory, found["node"])
            doing(made, found)
            return made
    raise AssertionError(f"nobody could do this: {sentence}")


def _names(listed: str) -> list[str]:
    return re.split(r", | and ", listed)


def _holds(made: Inventory, node: str) -> list[Hold]:
    info = made.node(node)
    assert info is not None
    return list(info.holds.values())


def _put(made: Inventory, hold: Hold) -> None:
    made.release(hold.uid)
    made.charge(hold)


def _devices_freed(made: Inventory, found: re.Match[str]) -> None:
    _freed(made, found["node"], lambda share: share.uuid in _names(found["devices"]))


def _minors_freed(made: Inventory, found: re.Match[str]) -> None:
    _freed(made, found["node"], lambda share: str(share.minor) in _names(found["minors"]))


def _freed(made: Inventory, node: str, named: Callable[[decisions.Share], bool]) -> None:
    for hold in _holds(made, node):
        _put(made, dataclasses.replace(hold, shares=tuple(one for one in hold.shares if not named(one))))


def _room_made(made: Inventory, found: re.Match[str]) -> None:
    parts = re.finditer(rf"{AMOUNT} on (?P<device>[\w-]+)", found["parts"])
    rooms = {one["device"]: [int(one["core"] or 0), int(one["memory"] or 0)] for one in parts}
    assert rooms
    for hold in _holds(made, found["node"]):
        _put(made, dataclasses.replace(hold, shares=tuple(_less(hold.shares, rooms))))


def _one_room_made(made: Inventory, found: re.Match[str]) -> None:
    rooms = {found["device"]: [int(found["core"] or 0), int(found["memory"] or 0)]}
    for hold in _holds(made, found["node"]):
        _put(made, dataclasses.replace(hold, shares=tuple(_less(hold.shares, rooms))))


def _less(shares: Iterable[decisions.Share], rooms: dict[str, list[int]]) -> Iterator[decisions.Share]:
    for share in shares:
        room = rooms.get(share.uuid, [0, 0])
        core, memory = min(share.core, room[0]), min(share.memory, room[1])
        room[0], room[1] = room[0] - core, room[1] - memory
        yield dataclasses.replace(share, core=share.core - core, memory=share.memory - memory)


def _pods_ended(made: Inventory, found: re.Match[str]) -> None:
    named = _names(found["pods"])
    cut = re.search(r"(\d+) more$", found["pods"])
    there = {hold.title: hold.uid for hold in _holds(made, found["node"])}
    for title in named if cut is None else there:
        made.release(there[title])


def _some_pods_ended(made: Inventory, found: re.Match[str]) -> None:
    for hold in _holds(made, found["node"])[: int(found["count"])]:
        made.release(hold.uid)


def _resource_freed(made: Inventory, found: re.Match[str]) -> None:
    name, missing = found["name"], float(found["amount"])
    missing = round(missing * 1000) if name == nodes.CPU else round(missing)
    for hold in _holds(made, found["node"]):
        held = dict(hold.amounts)
        less = min(held.get(name, 0), missing)
        missing -= less
        _put(
            made, dataclasses.replace(hold, amounts=tuple((held | {name: held.get(name, 0) - less}).items()))
        )


DOINGS: Final[Sequence[tuple[str, Doing]]] = (
    (rf"{AMOUNT} were freed on (?P<device>[\w-]+) of (?P<node>\w+)", _one_room_made),
    (r"\d+ devices of (?P<node>\w+) \(minors (?P<minors>.+)\) were freed", _minors_freed),
    (r"(?P<parts>\d+ (?:%|bytes) .+) of (?P<node>\w+) were freed", _room_made),
    (r"(?P<devices>.+) of (?P<node>\w+) were freed", _devices_freed),
    (r"(?P<amount>[\d.]+) (?:bytes )?(?P<name>\S+) were freed on (?P<node>\w+)", _resource_freed),
    (r"(?P<count>\d+) pods? on (?P<node>\w+) terminated", _some_pods_ended),
    (r"(?P<pods>.+) on (?P<node>\w+) terminated", _pods_ended),
)
