"""Random choices among few values, so that what is drawn here meets what is drawn there."""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Fields = dict[str, Any]


class Dice(random.Random):
    """A source of random choices."""

    def whether(self, part: float) -> bool:
        """Return True in this part of all cases."""
        return self.random() < part

    def some(self, values: Sequence[T], most: int, least: int = 0) -> list[T]:
        """Return some of the values, each once."""
        return self.sample(values, self.randint(least, min(most, len(values))))

    def maybe(self, part: float, **fields: Callable[[], Any]) -> Fields:
        """Return these fields in this part of all cases; otherwise none."""
        return {name: draw() for name, draw in fields.items()} if self.whether(part) else {}
