"""Pods whose end would let another in: the victims, as few of them as will do.

Where giving back the devices that the pod would then get is enough, the devices are proposed
and not the pods, because their holders may have more than is needed.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Self

from berth_operator.scheduling import changes, wording
from berth_operator.scheduling.changes import Option, Room, Situation
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.what_if import budget, trials
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndPods(changes.Change):
    """These pods of a node end, or only give back these devices of theirs."""

    rank: ClassVar = changes.Rank.END_PODS
    holds: tuple[Hold, ...]
    devices: tuple[Room, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """Namespaces and names of the pods."""
        return tuple(sorted(hold.title for hold in self.holds))

    @property
    def parts(self) -> tuple[Hold, ...]:
        """The pods."""
        return self.holds

    def only(self, parts: Sequence[Hold]) -> Self:
        """Return the change of fewer pods."""
        return dataclasses.replace(self, holds=tuple(parts))

    def apply(self, situation: Situation) -> Situation:
        """Return the situation without the pods, or without all shares of the devices."""
        named, ended = {one.device for one in self.devices}, {hold.uid for hold in self.holds}
        holds = situation.holds
        if named:
            kept = (tuple(one for one in hold.shares if one.uuid not in named) for hold in holds)
            holds = tuple(
                dataclasses.replace(hold, shares=one) for hold, one in zip(holds, kept, strict=True)
            )
        else:
            holds = tuple(hold for hold in holds if hold.uid not in ended)
        return dataclasses.replace(situation, holds=holds)

    def clause(self) -> str:
        """Return which devices would have to be freed, or which pods would have to end."""
        if self.devices:
            return f"{changes.named(self.devices, self.node)} were freed"
        return self.clause_of(self.titles)

    def clause_of(self, titles: Iterable[str]) -> str:
        """Return that these pods would have to end."""
        return f"{wording.listed(titles)} ended on {wording.short(self.node)}"


def remedies(situation: Situation) -> Iterator[Option]:
    """Yield that pods end, in the order in which their end helps soonest."""
    holds = situation.holds[: budget.PODS_TRIED]
    if holds:
        name = situation.node.name
        yield Option([EndPods(node=name, holds=holds[:count]) for count in range(1, len(holds) + 1)])


def with_devices(survey: NodeSurvey, row: int, change: EndPods) -> EndPods:
    """Name the devices that would do if only these were given back, by all who share them; else the pods."""
    before = trials.situation(survey, row)
    given = trials.devices(survey, change.apply(before))
    held = {share.uuid: share for hold in change.holds for share in hold.shares if share.uuid in given}
    rooms = [Room(uuid, one.minor, one.core, one.memory, one.type) for uuid, one in held.items()]
    rooms.sort(key=lambda room: (room.minor, room.device))
    freed = dataclasses.replace(change, devices=tuple(rooms), size=len(rooms) / max(1, len(given)))
    lacks = survey.why(row)[0] is Reason.INSUFFICIENT_RESOURCE
    return freed if rooms and not lacks and trials.fits(survey, freed.apply(before)) else change
