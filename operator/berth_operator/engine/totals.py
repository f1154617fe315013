"""Numbers by key, such as the bytes or the binds of each namespace."""

import collections


class Totals(collections.Counter[str]):
    """The total of each key; a key whose total is zero is forgotten."""

    def add(self, key: str, amount: int) -> None:
        """Add to the total of a key."""
        self[key] += amount
        if not self[key]:
            del self[key]
