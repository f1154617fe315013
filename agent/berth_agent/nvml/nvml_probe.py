"""The probe for real cards: opens NVML, samples, and opens it again when that may help.

A library that fails as a whole is a failed source with a reason; the next sample tries to open it
again, so an agent that was started before its driver recovers by itself. An open library is closed
and opened again where only that shows the truth: when the kernel driver has got or released a card,
and now and then while a card is lost, because a card that was reset answers only to new sessions.

The probe remembers the links of a lost card, so neither its peers nor their partitions seem to
change. Health is not judged here: measurements and errors are passed on. Errors are kept for the next
good sample, since the driver reports each only once.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from berth_agent import nvlink_groups, probe, sysfs
from berth_agent.nvml import calls, cards, links, lost_cards, session

# Opening the library may wake every card of the node, which takes seconds where nothing keeps
# them awake. With a sample every ten seconds, a card that came back is seen within a minute.
SAMPLES_BETWEEN_OPENINGS: Final = 6

CompleteSample = Callable[[probe.Sample], probe.Sample]


class NvmlProbe:
    """Samples the cards that the NVIDIA driver of this node knows."""

    def __init__(self, kernel: sysfs.Kernel, complete: CompleteSample = lambda sample: sample) -> None:
        """`complete` adds labels and what stands beside the cards; a failed source has neither."""
        self._kernel = kernel
        self._complete_sample = complete
        self._session: session.Session | None = None
        self._known: lost_cards.Known = {}
        self._samples_with_loss = 0
        self._readings: tuple[links.CardReading, ...] = ()
        self._processes: Mapping[str, tuple[probe.Process, ...]] = {}
        self._xids: tuple[probe.XidEvent, ...] = ()
        self._progress = ""

    def sample(self) -> probe.Outcome:
        """Sample once."""
        outcome = self._sample()
        self._set_progress("")
        return outcome

    def _sample(self) -> probe.Outcome:
        self._set_progress("asking the kernel which cards the driver holds")
        reopens = self._samples_with_loss % SAMPLES_BETWEEN_OPENINGS == 1
        if self._session and (reopens or self._session.is_outdated()):
            self.close()
        was_open = self._session is not None
        outcome = self._open_and_sample()
        if was_open and isinstance(outcome, probe.SourceFailed):
            # The driver may have been loaded again since the library was opened.
            outcome = self._open_and_sample()
        return self._complete(outcome)

    def _complete(self, outcome: probe.Outcome) -> probe.Outcome:
        """Return a good sample with the driver's errors and the extra devices."""
        if isinstance(outcome, probe.SourceFailed):
            return outcome
        if self._session:
            self._set_progress("asking the driver for errors")
            self._collect(self._session)
        self._set_progress("reading the extra devices")
        complete = self._complete_sample(outcome)
        xids, self._xids = self._xids, ()
        return dataclasses.replace(complete, xids=xids)

    def progress(self) -> str:
        """Return what the current sample is doing: nothing else shows which call hangs."""
        return self._progress

    def _set_progress(self, what: str) -> None:
        self._progress = what

    def has_events(self) -> bool:
        """Whether the driver has reported an error since the last sample."""
        return self._session is not None and self._session.events.is_pending()

    def processes(self) -> tuple[probe.Process, ...] | None:
        """Return the processes on the cards; None where that is not known.

        For a card that fails to list them just now, its last list stands; processes that have ended are
        left out when their cgroups are read. While a card has never listed any, nothing is known about
        the node. A card that does not support it has none.
        """
        if not self._readings:
            return None
        self._set_progress("listing the processes on the cards")
        listed, failed = _processes(self._readings)
        self._set_progress("")
        self._processes = {
            **{uuid: found for uuid, found in self._processes.items() if uuid in self._known},
            **listed,
        }
        if not self._processes or failed - self._processes.keys():
            return None
        return tuple(process for found in self._processes.values() for process in found)

    def close(self) -> None:
        """Close the library, if it is open; the next sample opens it."""
        self._readings = ()
        if self._session:
            self._collect(self._session)
            self._session.close()
        self._session = None

    def _collect(self, opened: session.Session) -> None:
        self._xids += opened.events.take()

    def _open_and_sample(self) -> probe.Outcome:
        try:
            if self._session is None:
                self._set_progress("opening the driver's library")
                self._session = session.Session(self._kernel, self._set_progress)
            return self._sample_open(self._session)
        except calls.CallFailed as failure:
            self.close()
            return calls.source_failed(failure)

    def _sample_open(self, opened: session.Session) -> probe.Sample:
        # 1. Which cards answer, and which do not.
        self._set_progress("asking the driver for its cards")
        driver, found = opened.driver(), opened.read_cards()
        readings = tuple(each for each in found if isinstance(each, links.CardReading))
        silent = tuple(each for each in found if isinstance(each, probe.LostCard))
        if silent:
            opened.driver()  # No card answers when the driver is gone, either: then the library says so.
        self._readings = readings
        answering = tuple(opened.linked(readings))
        lost = lost_cards.identify(silent, opened.addresses or (), answering, self._known)
        # 2. What is remembered of lost cards.
        remembered = tuple(self._known[each.uuid] for each in lost if each.uuid in self._known)
        order = {card.uuid: card.index for card in (*answering, *remembered)}
        complete = tuple(_linked_to(card, remembered, order) for card in answering)
        self._known = {card.uuid: card for card in (*complete, *remembered)}
        self._samples_with_loss = self._samples_with_loss + 1 if lost else 0
        # 3. The sample.
        given = tuple(card for card in complete if card.model not in cards.DISPLAYS)
        return probe.Sample(
            driver=driver,
            boot_id=self._kernel.boot_id(),
            cards=tuple(sorted((*given, *lost), key=lambda each: each.index)),
            partitions=nvlink_groups.partitions((*given, *remembered)),
        )


def _processes(
    readings: Iterable[links.CardReading],
) -> tuple[Mapping[str, tuple[probe.Process, ...]], set[str]]:
    """Return the processes of the cards by uuid, and the cards that failed to list theirs."""
    listed: dict[str, tuple[probe.Process, ...]] = {}
    failed: set[str] = set()
    for reading in readings:
        try:
            listed[reading.card.uuid] = cards.processes(reading.handle, reading.card)
        except calls.CallFailed as failure:
            if failure.code not in calls.ABSENT:
                failed.add(reading.card.uuid)
    return listed, failed


def _linked_to(card: probe.Card, remembered: Sequence[probe.Card], order: Mapping[str, int]) -> probe.Card:
    """Return a card with its links to lost cards, as last known from the other end."""
    back = (
        msgspec.structs.replace(link, peer=peer.uuid)
        for peer in remembered
        for link in peer.links
        if link.peer == card.uuid
    )
    links = sorted((*card.links, *back), key=lambda link: order[link.peer])
    return dataclasses.replace(card, links=tuple(links))
