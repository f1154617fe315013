"""NVML while it is open: one look at all cards, and what may be remembered between looks.

A session begins with `nvmlInit` and ends with `nvmlShutdown`. The driver counts its cards
at the beginning and never again, so a card that is plugged in, or reset, is only seen by a
new session; when to begin one is for `source` to say. What a session remembers goes with it.

The library counts who opened it and closes with the last. There must be one session in a
process, and whoever else wants to ask NVML (errors, processes) does so through it: a second
one would keep the library open, and no card would ever come back.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pynvml

from berth_agent import probe, sysfs
from berth_agent.nvml import calls, cards, events, links
from berth_crds import schema_limits, text

DRIVER: Final = "nvidia"  # As the kernel calls it.

Found = cards.Reading | probe.Lost


class Session:
    """The open library, and the facts of the cards seen through it."""

    def __init__(self, kernel: sysfs.Kernel, doing: Callable[[str], None] = lambda _: None) -> None:
        """Open the library, or raise `calls.Failed`; `doing` is told what is begun."""
        self._kernel = kernel
        self._doing = doing
        self._facts: dict[str, cards.Facts] = {}
        self._ancestors: dict[frozenset[str], int | None] = {}
        # Noted before the library counts: what the driver takes meanwhile makes the session outdated.
        self._addresses = kernel.driven_by(DRIVER)
        calls.ask(pynvml.nvmlInit)
        self.events = events.Events()

    def close(self) -> None:
        """Close the library; that it fails to close is nothing to anybody."""
        self.events.close()
        try:
            calls.ask(pynvml.nvmlShutdown)
        except calls.Failed:
            return

    @property
    def addresses(self) -> frozenset[str]:
        """Return the PCI addresses that the driver held when the session began."""
        return self._addresses or frozenset()

    def is_outdated(self) -> bool:
        """Return whether the driver has taken or left a card since the session began."""
        return self._kernel.driven_by(DRIVER) != self._addresses

    def driver(self) -> probe.Driver:
        """Ask for the versions."""
        version = _version()
        cuda = calls.ask_or(0, pynvml.nvmlSystemGetCudaDriverVersion_v2)
        newest = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda > 0 else ""
        return probe.Driver(text.line(version, most=schema_limits.LONGEST_DRIVER_VERSION), newest)

    def look(self) -> tuple[Found, ...]:
        """Read every card that the library counts."""
        count = min(calls.ask(pynvml.nvmlDeviceGetCount), schema_limits.MOST_DEVICES)
        return tuple(_distinct(self._read(index) for index in range(count)))

    def _read(self, index: int) -> Found:
        uuid, address = "", None
        self._doing(f"reading card {index}")
        try:
            handle = calls.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            address = cards.address(handle)
            uuid = cards.uuid(handle)
            self._doing(f"reading card {index} ({uuid})")
            facts = self._facts.get(uuid)
            if facts is None or facts.place.bus_id != address:
                facts = self._facts[uuid] = cards.facts(handle, address, self._kernel)
            self.events.follow(handle, uuid)
            return cards.read(handle, index, uuid=uuid, facts=facts)
        except calls.Failed as failure:
            return probe.Lost(index, failure.reason, str(failure), uuid, address)

    def linked(self, readings: Sequence[cards.Reading]) -> Iterator[probe.Card]:
        """Yield the cards that answered, with their ways to each other."""
        self._doing("asking how the cards are linked")
        handles = {each.card.uuid: each.handle for each in readings}
        ends = tuple(each.end for each in readings)
        for each in readings:
            ways = links.between(each.end, ends, lambda one, peer: self._ancestor(handles, one, peer))
            yield dataclasses.replace(each.card, links=tuple(ways))

    def _ancestor(self, handles: Mapping[str, Any], one: str, peer: str) -> int | None:
        pair = frozenset((one, peer))
        if self._ancestors.get(pair) is None:
            self._ancestors[pair] = links.common_ancestor(handles[one], handles[peer])
        return self._ancestors[pair]


def _version() -> str:
    """Ask for the driver's version; one that is no text is unknown, for nothing hangs on it."""
    try:
        return calls.ask_or("", pynvml.nvmlSystemGetDriverVersion)
    except calls.Failed as failure:
        if failure.code == calls.UNREADABLE:
            return ""
        raise


def _distinct(found: Iterable[Found]) -> Iterator[Found]:
    """Treat a card as lost whose uuid or minor another has; the schema would refuse all of them."""
    uuids: set[str] = set()
    minors: set[int] = set()
    for each in found:
        if isinstance(each, probe.Lost):
            yield each
        elif each.card.uuid in uuids or each.card.minor in minors:
            yield probe.Lost(each.card.index, "NotDistinct", "another card has the same uuid or minor")
        else:
            uuids.add(each.card.uuid)
            minors.add(each.card.minor)
            yield each
