"""How many objects to ask for in a page, learnt from the pages before."""

from typing import Final

from berth_crds.client import parser

# Of one page, in bytes, of which the least objects take two each, and many times that once they are read.
LONGEST_PAGE: Final = 1 << 24
USUAL_PAGE: Final = 1 << 22
SHRUNK: Final = 16  # A page that is too large is asked for again with so many times fewer objects.
# One object, as the only one of a page or in a watch: as etcd takes it, and six bytes for each.
LONGEST_LINE: Final = 1 << 25


class PageSizes:
    """How many objects are asked for at once: as many as make the usual length, and at most `most`.

    With 0 the whole list is one page, however long it is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.current = most

    @property
    def longest(self) -> int:
        """How many bytes a page may have."""
        if self._most == 0:
            return parser.LONGEST_BODY
        return LONGEST_PAGE if self.current > 1 else LONGEST_LINE

    def shrink(self) -> None:
        """Ask for fewer from now on: a page was too large."""
        self.current = max(1, self.current // SHRUNK)

    def adapt(self, count: int, length: int) -> None:
        """Adapt to a page of so many objects and bytes; an empty page changes nothing."""
        if count:
            wanted = count * USUAL_PAGE // max(1, length)
            self.current = min(self._most, max(1, min(2 * self.current, wanted)))
