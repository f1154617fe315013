"""Words that count how often any of them is looked up or compared: what a step costs, without a clock."""


class Word(str):
    """A word like any other."""

    touched = 0
    __slots__ = ()

    def __hash__(self) -> int:
        """Count a look-up."""
        Word.touched += 1
        return super().__hash__()

    def __lt__(self, other: str) -> bool:
        """Count a comparison."""
        Word.touched += 1
        return super().__lt__(other)

    __eq__ = str.__eq__


def taken() -> int:
    """Return the count since this was asked last."""
    count, Word.touched = Word.touched, 0
    return count
