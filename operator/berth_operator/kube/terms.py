"""A term of leadership: what its leader has to know of the one before it."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A term of leadership: `clean` if no bind of the last holder is under way; and what that had declared.

    Up to `stale_revision` the last holder knew no Lease of an agent that was ready.
    """

    name: str
    clean: bool
    inherited: str | None = None
    stale_revision: int = 0

    @property
    def number(self) -> int:
        """The number of the term: `leaseTransitions` of the Lease."""
        return int(self.name.rpartition("/")[2])
