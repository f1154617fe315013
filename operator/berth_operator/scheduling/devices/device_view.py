"""One node's devices as a decision sees them: what is there, and what is taken of it.

A View is made from the inventory for one node, read by the allocator and by `explain`,
and thrown away. It answers in free core (percent) and free memory (bytes) for each card.
"""

import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice

FULL_CORE = 100
NOTHING: Final[Mapping[str, Any]] = types.MappingProxyType({})


class Usage(NamedTuple):
    """What all holds together take of one device: core, memory, and how many pods share it.

    Of these, `wholes` may have it to themselves: they have all the core, and no record says that this is a
    part.
    """

    core: int = 0
    memory: int = 0
    pods: int = 0
    wholes: int = 0


UNUSED = Usage()


class View(NamedTuple):
    """The devices of one node and their use, by uuid; MIG instances have entries of their own.

    `functions` are the bus ids of virtual functions in use. `withheld` counts cards that
    pods have that are not known by name: so many of the free ones must not be given.
    `in_service` is false where no card of the node may be given out at all, and `exclusive_replicas` is true
    where a time-sliced or MPS card is given to one pod at a time. `quarantine` says why the node gets no pod
    although its agent is ready. `honors_partitions` is true where whole cards are given in partitions only.
    `loads_by_uuid` say how loaded cards are: the more, the better they are left alone; without any they are
    all alike. `measured_free` is the memory of cards that nobody uses, where that was measured lately. Of
    the core of a card `core_limit` percent may be promised in all, as long as it has memory left: a card that
    one pod has whole, and one of unknown memory, is never promised beyond 100.
    """

    device: device_facts.Device
    used: Mapping[str, Usage] = NOTHING
    functions: frozenset[str] = frozenset()
    withheld: int = 0
    in_service: bool = True
    quarantine: str = ""
    exclusive_replicas: bool = False
    honors_partitions: bool = False
    loads_by_uuid: Mapping[str, int] = NOTHING
    measured_free: Mapping[str, int] = NOTHING
    core_limit: int = FULL_CORE

    def usage(self, uuid: str) -> Usage:
        """Return what is taken of a device."""
        return self.used.get(uuid, UNUSED)

    def load_of(self, uuid: str) -> int:
        """Return how loaded a card is: the lower, the sooner it is given."""
        return self.loads_by_uuid.get(uuid, 0)

    def free_core(self, card: PhysicalDevice) -> int:
        """Return how much compute is left on a card, or of another device what is left of it."""
        limit = FULL_CORE if self.core_limit == FULL_CORE else self.limit_of(card)
        return max(0, limit - self.usage(card.uuid).core)

    def limit_of(self, card: PhysicalDevice) -> int:
        """Return how much of a device may be promised in all."""
        has_memory = self.usage(card.uuid).memory < card.memory
        return self.limit_with_memory(card) if has_memory else FULL_CORE

    def limit_with_memory(self, card: PhysicalDevice) -> int:
        """Return how much of a device may be promised in all while, or once, some of its memory is left.

        Free memory does not tell whether a pod has a card whole: it may list more than when it was given.
        """
        may_be_shared = card.memory > 0 and not self.usage(card.uuid).wholes
        return self.core_limit if card.type == device_facts.GPU and may_be_shared else FULL_CORE

    def recorded_limit(self, core: int, *, whole: bool) -> int:
        """Return what is recorded of the limit in what a pod gets: nothing where it is as always.

        A part that has all the core always has a record, which tells it from a whole card.
        """
        return 0 if whole or (self.core_limit == FULL_CORE and core < FULL_CORE) else self.core_limit

    def up_to(self, core_limit: int) -> "View":
        """Return the same devices to a pod that is content with so much core promised of a card in all."""
        return self if core_limit == self.core_limit else self._replace(core_limit=core_limit)

    def free_memory(self, card: PhysicalDevice) -> int:
        """Return how much memory is left on a card."""
        return max(0, card.memory - self.usage(card.uuid).memory)

    def unused(self, card: PhysicalDevice) -> bool:
        """Whether no pod holds anything of a card."""
        if (used := self.used.get(card.uuid)) is not None and used != UNUSED:
            return False
        return not card.instances or all(self.usage(one.uuid) == UNUSED for one in card.instances)
