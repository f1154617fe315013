"""A term of leadership: what its leader has to know of the one before it."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A term of leadership: `clean` if no bind of the last holder is under way; and what that had declared.

    `lapsed` if we watched the Lease for its whole duration, and the last holder did not renew it. Up to
    `stale_revision` that one knew no Lease of an agent that was ready.
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
        """Whether its leader has to wait until binds of the last one have ended before it makes others void.

        Not where the Lease lapsed: the last one stopped by itself before that, and all that it sent can be
        made void. Unless it declared nothing: then it is of a version whose binds name no revision.
        """
        return not self.clean and not (self.lapsed and self.inherited is not None)
