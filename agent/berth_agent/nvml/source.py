"""The probe for real cards: opens NVML, looks, and opens it anew when that may help.

A library that fails as a whole is a failed source with a reason; the next look tries to
open it again, so that an agent that was started before its driver needs nobody's help. An
open library is closed and opened again where only that can show the truth: when the kernel
driver has taken or left a card, and now and then while a card is lost, because a card that
was reset answers only to those who began after it.

For a card that is lost the probe remembers how it was linked, so that one bad card is one
bad entry and neither its peers nor their partitions seem to change. Health is not judged
here: what cards measure and what errors the driver told are handed on. Errors wait for the
next sample, whatever happens meanwhile, for the driver tells each only once.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from berth_agent import card_processes, nvlink_groups, probe, sysfs
from berth_agent.nvml import calls, cards, missing, running, session

# Opening the library may wake every card of the node, which takes seconds where nothing keeps
# them awake. With a look every ten seconds, a card that came back is seen within a minute.
LOOKS_BETWEEN_OPENINGS: Final = 6


class NvmlProbe:
    """Looks at the cards that the NVIDIA driver of this node knows."""

    def __init__(self, kernel: sysfs.Kernel) -> None:
        self._kernel = kernel
        self._session: session.Session | None = None
        self._known: missing.Known = {}
        self._looks_with_loss = 0
        self._readings: tuple[cards.Reading, ...] = ()
        self._processes: Mapping[str, tuple[card_processes.Process, ...]] = {}
        self._xids: tuple[probe.Xid, ...] = ()
        self._doing = ""

    def sample(self) -> probe.Outcome:
        """Look once."""
        outcome = self._sample()
        self._does("")
        return outcome

    def _sample(self) -> probe.Outcome:
        self._does("asking the kernel which cards the driver holds")
        if self._session and self._would_help_to_open_anew(self._session):
            self.close()
        was_open = self._session is not None
        outcome = self._try()
        if was_open and isinstance(outcome, probe.SourceFailed):
            # The driver may have been loaded anew since the library was opened.
            outcome = self._try()
        return self._with_xids(outcome)

    def _with_xids(self, outcome: probe.Outcome) -> probe.Outcome:
        if isinstance(outcome, probe.SourceFailed):
            return outcome
        if self._session:
            self._does("asking the driver for errors")
            self._collect(self._session)
        xids, self._xids = self._xids, ()
        return dataclasses.replace(outcome, xids=xids)

    def whereabouts(self) -> str:
        """Return what the look under way is doing: a call that hangs is nowhere else told of."""
        return self._doing

    def _does(self, what: str) -> None:
        self._doing = what

    def has_news(self) -> bool:
        """Return whether the driver has told an error since the last look."""
        return self._session is not None and self._session.events.has_any()

    def processes(self) -> tuple[card_processes.Process, ...] | None:
        """List the processes on the cards; None where that is not known.

        Of a card that does not tell just now, or does not answer at all, those stand that it told last:
        it is no emptier for that, and whoever has ended meanwhile is left out by who looks for their place.
        One that has told nothing yet leaves open who is on the node. A card that cannot tell has none.
        """
        if not self._readings:
            return None
        self._does("listing the processes on the cards")
        told, silent = _told(self._readings)
        self._does("")
        kept = {uuid: found for uuid, found in self._processes.items() if uuid in self._known}
        self._processes = {**kept, **told}
        if not self._processes or silent - self._processes.keys():
            return None
        return tuple(process for found in self._processes.values() for process in found)

    def close(self) -> None:
        """Close the library, if it is open; the next look opens it."""
        self._readings = ()
        if self._session:
            self._collect(self._session)
            self._session.close()
        self._session = None

    def _collect(self, opened: session.Session) -> None:
        self._xids += opened.events.take()

    def _would_help_to_open_anew(self, opened: session.Session) -> bool:
        return opened.is_outdated() or self._looks_with_loss % LOOKS_BETWEEN_OPENINGS == 1

    def _try(self) -> probe.Outcome:
        try:
            if self._session is None:
                self._does("opening the driver's library")
                self._session = session.Session(self._kernel, self._does)
            return self._look(self._session)
        except calls.Failed as failure:
            self.close()
            return calls.source_failed(failure)

    def _look(self, opened: session.Session) -> probe.Sample:
        # 1. Who answers, and who does not.
        self._does("asking the driver for its cards")
        driver, found = opened.driver(), opened.look()
        readings = tuple(each for each in found if isinstance(each, cards.Reading))
        silent = tuple(each for each in found if isinstance(each, probe.Lost))
        if silent:
            opened.driver()  # Cards answer no more when the driver goes, too: then the library says so.
        self._readings = readings
        answering = tuple(opened.linked(readings))
        lost = missing.identify(silent, opened.addresses, answering, self._known)
        # 2. What is remembered of those who do not.
        remembered = tuple(self._known[each.uuid] for each in lost if each.uuid in self._known)
        order = {card.uuid: card.index for card in (*answering, *remembered)}
        complete = tuple(_linked_to(card, remembered, order) for card in answering)
        self._known = {card.uuid: card for card in (*complete, *remembered)}
        self._looks_with_loss = self._looks_with_loss + 1 if lost else 0
        # 3. What follows.
        given = tuple(card for card in complete if card.model not in cards.DISPLAYS)
        return probe.Sample(
            driver=driver,
            boot_id=self._kernel.boot_id(),
            cards=tuple(sorted((*given, *lost), key=lambda each: each.index)),
            partitions=nvlink_groups.partitions((*given, *remembered)),
        )


def _told(
    readings: Iterable[cards.Reading],
) -> tuple[Mapping[str, tuple[card_processes.Process, ...]], set[str]]:
    """Ask each card for its processes; give what they told, by uuid, and who should have told and did not."""
    told: dict[str, tuple[card_processes.Process, ...]] = {}
    silent: set[str] = set()
    for each in readings:
        try:
            told[each.card.uuid] = tuple(running.on(each.handle, each.card))
        except calls.Failed as failure:
            if failure.code not in calls.ABSENT:
                silent.add(each.card.uuid)
    return told, silent


def _linked_to(card: probe.Card, remembered: Sequence[probe.Card], order: Mapping[str, int]) -> probe.Card:
    """Add a card's ways to cards that are lost, as they were last known from the other end."""
    ways = (*card.links, *_ways_back(card.uuid, remembered))
    return dataclasses.replace(card, links=tuple(sorted(ways, key=lambda way: order[way.peer])))


def _ways_back(uuid: str, remembered: Sequence[probe.Card]) -> Iterator[probe.Link]:
    for peer in remembered:
        yield from (dataclasses.replace(way, peer=peer.uuid) for way in peer.links if way.peer == uuid)
