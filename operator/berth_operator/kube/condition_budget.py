"""The budget of rewritten conditions: bytes a second, for each namespace and in all.

A condition is short, but with it the server stores the whole pod and sends it to all watchers.
Conditions change with other pods: each bind may change the conditions of forty pods of a megabyte.
Without a limit such pods would fill the server's disk at the rate of all binds. The first
condition of a pod is free, for the creator of the pod has written as much.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Final

MIB: Final = 1 << 20
NAMESPACE_BYTES: Final = 1 * MIB  # A second: usual pods have some KiB, of which it is hundreds.
BYTES: Final = 4 * MIB  # A second, of all namespaces.
AT_ONCE_SECONDS: Final = 2.0  # The unused budget of so long may be spent at once.
MOST_REMEMBERED: Final = 1024


@dataclasses.dataclass(slots=True)
class ByteBudget:
    """Bytes a second, with bursts; after too much is spent, nothing may be spent for a while."""

    bytes_a_second: float
    paid: float = -math.inf  # The time at which all spent bytes are paid.

    def spend(self, size: int, now: float) -> None:
        """Record spent bytes; a negative size gives some back."""
        self.paid = max(self.paid, now - AT_ONCE_SECONDS) + size / self.bytes_a_second

    def exhausted(self, now: float) -> bool:
        """Whether more was spent than there was."""
        return self.paid > now


class ConditionBudget:
    """The budgets of all namespaces."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all = ByteBudget(BYTES)
        self._budgets: dict[str, ByteBudget] = {}

    def spend(self, namespace: str, size: int) -> None:
        """Record bytes that were written for a namespace."""
        now = self._clock()
        if len(self._budgets) >= MOST_REMEMBERED:
            self._budgets = {name: one for name, one in self._budgets.items() if one.exhausted(now)}
        for one in (self._budgets.setdefault(namespace, ByteBudget(NAMESPACE_BYTES)), self._all):
            one.spend(size, now)

    def exhausted(self, namespace: str) -> bool:
        """Whether no condition of a namespace may be rewritten now."""
        now, budget = self._clock(), self._budgets.get(namespace)
        return self._all.exhausted(now) or (budget is not None and budget.exhausted(now))
