"""Numbers by key, such as the bytes or the binds of each namespace."""

import collections


class Totals(collections.Counter[str]):
    """The total of each key, and their sum; a key whose total is zero is forgotten."""

    sum = 0

    def add(self, key: str, amount: int) -> None:
        """Add to the total of a key."""
        self[key] += amount
        self.sum += amount
        if not self[key]:
            del self[key]
