"""What rewritten verdicts may cost the API server: so many bytes a second, for each namespace and in all.

A verdict is a sentence, but the server stores, and sends to all who watch, the whole pod with
it. Verdicts change with what others do: each bind may change what forty pods of a megabyte are
told. Without a bound such pods would fill the server's disk at the pace of everybody's binds.
The first verdict of a pod is free, for whoever made the pod has written as much.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Final

MIB: Final = 1 << 20
NAMESPACE_BYTES: Final = 1 * MIB  # A second: usual pods have some KiB, of which it is hundreds.
BYTES: Final = 4 * MIB  # A second, of all namespaces.
AT_ONCE_SECONDS: Final = 2.0  # What was left unused for so long may be spent at once.
MOST_REMEMBERED: Final = 1024


@dataclasses.dataclass(slots=True)
class Account:
    """Bytes that may be spent, some at once; what was spent too much has to be waited for."""

    bytes_a_second: float
    paid: float = -math.inf  # From when on nothing is owed.

    def spend(self, size: int, now: float) -> None:
        """Record what was spent; less than nothing is given back."""
        self.paid = max(self.paid, now - AT_ONCE_SECONDS) + size / self.bytes_a_second

    def owes(self, now: float) -> bool:
        """Whether more was spent than there was."""
        return self.paid > now


class Rewrites:
    """The accounts of all namespaces."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all = Account(BYTES)
        self._accounts: dict[str, Account] = {}

    def spend(self, namespace: str, size: int) -> None:
        """Record what was written of a namespace."""
        now = self._clock()
        if len(self._accounts) >= MOST_REMEMBERED:
            self._accounts = {name: one for name, one in self._accounts.items() if one.owes(now)}
        account = self._accounts.setdefault(namespace, Account(NAMESPACE_BYTES))
        for one in (account, self._all):
            one.spend(size, now)

    def owes(self, namespace: str) -> bool:
        """Whether nothing of a namespace may be rewritten now."""
        now, account = self._clock(), self._accounts.get(namespace)
        return self._all.owes(now) or (account is not None and account.owes(now))
