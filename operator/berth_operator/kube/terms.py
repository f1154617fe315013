"""A term of leadership: what its leader has to know of the one before it."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A term of leadership: `clean` if no bind of the last holder is under way; and what that had declared.

    `lapsed` if the last holder did not renew the Lease for the whole duration, as we watched. Up to
    `stale_revision` it knew no Lease of an agent that was ready.
    """

    name: str
    clean: bool
    lapsed: bool = False
    inherited: str | None = None
    stale_revision: int = 0

    @property
    def number(self) -> int:
        """The number of the term: `leaseTransitions` of the Lease."""
        return int(self.name.rpartition("/")[2])

    @property
    def waits_for_binds(self) -> bool:
        """Whether its leader has to wait until binds of the last one have ended, for it cannot make all void.

        The last one may still send some, unless its Lease lapsed, which is later than it stops by itself. And
        if it declared nothing, it is of a version whose binds name no revision.
        """
        return not self.clean and not (self.lapsed and self.inherited is not None)
