"""How many objects of a collection a page of it may have, learnt from the pages before."""

from typing import Final

from berth_crds.client import parser

# Of one page, in bytes, of which the least objects take two each, and many times that once they are read.
LONGEST_PAGE: Final = 1 << 24
USUAL_PAGE: Final = 1 << 22
SHRUNK: Final = 16  # A page that is too large is asked for again with so many times fewer objects.
# One object, as the only one of a page or in a watch: as etcd takes it, and six bytes for each.
LONGEST_LINE: Final = 1 << 25


class Portions:
    """How many objects are asked for at once: so many that a page has the usual length, and `most` at most.

    With 0 the whole list is one page, however long it is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = most

    def __repr__(self) -> str:
        """Show the number."""
        return f"<Portions: {self.now} of {self._most}>"

    @property
    def longest(self) -> int:
        """How many bytes a page may have."""
        if self._most == 0:
            return parser.LONGEST_BODY
        return LONGEST_PAGE if self.now > 1 else LONGEST_LINE

    @property
    def least(self) -> bool:
        """Whether fewer cannot be asked for."""
        return self.now <= 1

    def shrink(self) -> None:
        """Ask for fewer from now on: a page was too large."""
        self.now = max(1, self.now // SHRUNK)

    def fit(self, count: int, length: int) -> None:
        """Learn from a page of so many objects and bytes; one without objects teaches nothing."""
        if count:
            wanted = count * USUAL_PAGE // max(1, length)
            self.now = min(self._most, max(1, min(2 * self.now, wanted)))
