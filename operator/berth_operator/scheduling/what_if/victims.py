"""The victims: the fewest pods of a node whose end would let the waiting pod in.

Where it is enough to free the devices that it would get, that is proposed instead: the victims may hold more.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Self

from berth_operator.scheduling import changes, wording
from berth_operator.scheduling.changes import DeviceShare, Option, Scenario
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.what_if import trials, work_budget
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndPods(changes.Change):
    """These pods of a node end, or only give back these devices of theirs."""

    precedence: ClassVar = changes.Precedence.END_PODS
    holds: tuple[Hold, ...]
    devices: tuple[DeviceShare, ...] = ()

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

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario without the pods, or without all shares of the devices."""
        named, ended = {one.uuid for one in self.devices}, {hold.uid for hold in self.holds}
        holds = scenario.holds
        if named:
            kept = (tuple(one for one in hold.shares if one.uuid not in named) for hold in holds)
            holds = tuple(
                dataclasses.replace(hold, shares=one) for hold, one in zip(holds, kept, strict=True)
            )
        else:
            holds = tuple(hold for hold in holds if hold.uid not in ended)
        return dataclasses.replace(scenario, holds=holds)

    def clause(self) -> str:
        """Return which devices would have to be freed, or which pods would have to end."""
        if self.devices:
            return f"{changes.named(self.devices, self.node)} were freed"
        return self.clause_of(self.titles)

    def clause_of(self, titles: Iterable[str]) -> str:
        """Return that these pods would have to end."""
        return f"{wording.listed(titles)} ended on {wording.short(self.node)}"


def remedies(scenario: Scenario) -> Iterator[Option]:
    """Yield that pods end, first those that share their devices with the fewest others."""
    holds = scenario.holds[: work_budget.PODS_TRIED]
    if holds:
        name = scenario.node.name
        yield Option([EndPods(node=name, holds=holds[:count]) for count in range(1, len(holds) + 1)])


def freeing_devices_instead(survey: NodeSurvey, row: int, change: EndPods) -> EndPods:
    """Return that only the devices which the pod would get are freed, if that is enough; else the change."""
    before = trials.scenario(survey, row)
    granted = trials.granted_devices(survey, change.apply(before))
    held = {share.uuid: share for hold in change.holds for share in hold.shares if share.uuid in granted}
    shares = [DeviceShare(uuid, one.minor, one.core, one.memory, one.type) for uuid, one in held.items()]
    shares.sort(key=lambda share: (share.minor, share.uuid))
    freed = dataclasses.replace(change, devices=tuple(shares), cost=len(shares) / max(1, len(granted)))
    return freed if shares and trials.fits(survey, freed.apply(before)) else change
