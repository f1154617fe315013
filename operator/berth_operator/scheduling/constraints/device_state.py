"""Whether enough devices are free of trouble: healthy, not cordoned, not used by others, and so on.

`node_table.TROUBLES` lists what may be wrong with a device. Two of the troubles are modes of a card, MIG and
sharing, in which it is given neither whole nor by shares: it is well, but not for a pod that asks for cards.
Their words are in `cards`.
"""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Self

import numpy as np

from berth_operator.scheduling import changes, node_table
from berth_operator.scheduling.changes import DeviceRef, ProposedChange, Scenario
from berth_operator.scheduling.constraints import cards, counted_devices
from berth_operator.scheduling.constraints.constraint import Constraint, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_facts, occupants
from berth_operator.scheduling.wording import of_devices

TROUBLE_REASONS: Final = tuple(reason for reason in node_table.TROUBLES if reason is not None)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have too few devices without trouble, by the trouble of the others."""
    # Replicas, MIG instances and devices that are no GPUs.
    for pieces in counted_devices.piece_counts(query):
        few = pieces.well < pieces.wanted
        for reason in TROUBLE_REASONS if few.any() else ():
            yield Rejection(few & (pieces.trouble == node_table.TROUBLES.index(reason)), reason, pieces.name)
    # Whole cards and shares of cards.
    if cards.card_asks(query.need) and query.any_trouble:
        suitable = cards.meeting_conditions(query)  # In trouble or not; `query.matching` has only the others.
        trouble = query.table.trouble[query.rows]
        well = trouble == 0
        there = np.flatnonzero(np.bincount(trouble.ravel())).tolist()
        by_reason = {TROUBLE_REASONS[number - 1]: trouble == number for number in there if number}
        for ask in cards.card_asks(query.need):
            large_enough = suitable & cards.large_enough(query, ask)
            few = node_table.count(large_enough & well) < ask.count
            for reason, in_trouble in by_reason.items() if few.any() else ():
                yield Rejection(few & (large_enough & in_trouble).any(axis=1), reason)


# ---------------------------------------------------------------- what would lift it


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RepairDevices(changes.Change):
    """Some devices of a node are rid of what is wrong with them."""

    precedence: ClassVar = changes.Precedence.REPAIR
    CLAUSES: ClassVar[Mapping[Reason, str]] = {
        Reason.CARD_CORDONED: "{devices} were not cordoned",
        Reason.UNHEALTHY: "{devices} were healthy",
        Reason.OCCUPIED: "no other process used {devices}",
        Reason.DUPLICATE_UUID: "no other node reported {devices}",
    }
    reason: Reason
    devices: tuple[DeviceRef, ...]
    wanted: int

    @property
    def change_type(self) -> Hashable:
        """The reason: to lift another one is another type of change."""
        return self.reason

    @property
    def parts(self) -> tuple[DeviceRef, ...]:
        """The devices."""
        return self.devices

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the pods whose processes would leave the devices."""
        return tuple(one.title for device in self.devices for one in device.occupants if one.title)

    def with_parts(self, parts: Sequence[DeviceRef]) -> Self:
        """Return the change of fewer devices."""
        cost = min(1.0, len(parts) / self.wanted)
        return dataclasses.replace(self, devices=tuple(parts), cost=cost)

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the devices well."""
        device, repaired = scenario.device, {one.uuid for one in self.devices}
        if device is None:
            return scenario
        cards, others = (
            tuple(dataclasses.replace(one, trouble=None) if one.uuid in repaired else one for one in those)
            for those in (device.cards, device.others)
        )
        return dataclasses.replace(scenario, device=dataclasses.replace(device, cards=cards, others=others))

    def clause(self) -> str:
        """Return what would have to be repaired."""
        return self.clause_for(None)

    def clause_for(self, namespace: str | None) -> str:
        """Return the clause; with a namespace, it does not name pods of others."""
        users = occupants.of_cards((one.occupants for one in self.devices), namespace)
        clause = self.CLAUSES[self.reason].format(devices=changes.named(self.devices, self.node))
        return f"{clause} ({users})" if users else clause


def remedies(scenario: Scenario, shortfall: allocator.Shortfall | None) -> Iterator[ProposedChange]:
    """Yield a proposal for each kind of trouble, to rid devices of it, those with most free first."""
    wanted = max(1, shortfall.wanted) if shortfall else 1
    for reason in RepairDevices.CLAUSES:
        troubled = _with_trouble(scenario, shortfall, reason)
        whole = RepairDevices(node=scenario.node.name, reason=reason, devices=troubled, wanted=wanted)
        if troubled:
            yield ProposedChange(
                [whole.with_parts(troubled[:count]) for count in range(1, len(troubled) + 1)]
            )


def _with_trouble(
    scenario: Scenario, shortfall: allocator.Shortfall | None, reason: Reason
) -> tuple[DeviceRef, ...]:
    """Return the devices with this trouble that would otherwise do, as far as that is known."""
    if shortfall is not None:
        found = [one for one in shortfall.verdicts if one.reason is reason]
        found.sort(key=lambda one: (-one.free.core, -one.free.memory, one.minor))
        return tuple(
            DeviceRef(
                one.device, one.minor, type=one.type, occupants=_occupants(scenario, one.device, reason)
            )
            for one in found
        )
    device = scenario.device
    there = (*device.cards, *device.others) if device is not None else ()
    return tuple(
        DeviceRef(one.uuid, one.minor, type=one.type, occupants=_occupants(scenario, one.uuid, reason))
        for one in there
        if one.trouble is reason
    )


def _occupants(scenario: Scenario, uuid: str, reason: Reason) -> tuple[device_facts.Occupant, ...]:
    """Return who uses a device, if that is what is wrong with it."""
    if reason is not Reason.OCCUPIED or scenario.device is None:
        return ()
    there = (*scenario.device.cards, *scenario.device.others)
    found = next((one.occupants for one in there if one.uuid == uuid), ())
    return occupants.only_of(found, {hold.title for hold in scenario.holds}) if found else ()


CONSTRAINT = Constraint(
    only_device_pods_lift_it=True,
    applies_to=lambda signature: signature.need.any_device,
    resolvable=resolvable,
    remedies=remedies,
    words={
        Reason.UNHEALTHY: of_devices("too few healthy {}"),
        Reason.CARD_CORDONED: of_devices("too few {} that are not cordoned"),
        Reason.OCCUPIED: of_devices("{} used by processes that Berth did not place"),
        Reason.DUPLICATE_UUID: of_devices("{} whose UUID another node reports too"),
        Reason.INVALID_ALLOCATION: of_devices("{} reserved for a pod without a valid allocation annotation"),
    },
    brief={
        Reason.UNHEALTHY: "unhealthy",
        Reason.CARD_CORDONED: "cordoned",
        Reason.OCCUPIED: "used by other processes",
        Reason.DUPLICATE_UUID: "UUID reported by another node too",
        Reason.INVALID_ALLOCATION: "reserved for a pod without a valid allocation annotation",
    },
)
