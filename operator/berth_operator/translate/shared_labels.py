"""Labels of pods as the core keeps them, shared: pods of one workload have equal ones, or nearly so.

Of a hundred thousand pods all labels are kept, because a selector may ask for any. So equal keys and values,
equal pairs and equal sets of labels are one object each, as far as they were seen not long ago.
"""

import sys
from collections.abc import Mapping
from typing import Final

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import memory_estimates

MOST_LABELS: Final = 64  # Of one pod that is shared.
MOST_BYTES: Final = 16 << 20  # Of all that is remembered to be shared; then that begins anew.


class SharedLabels:
    """The labels that were seen not long ago."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._sets: dict[facts.Labels, facts.Labels] = {}
        self._bytes = 0

    def of(self, labels: Mapping[str, str]) -> facts.Labels:
        """Return the labels in order; equal ones are one object."""
        found = tuple(sorted(labels.items()))
        if not found or len(found) > MOST_LABELS:
            return found
        if (shared := self._sets.get(found)) is None:
            size = memory_estimates.of_labels(found) + memory_estimates.ITEM
            if self._bytes + size > MOST_BYTES:
                self._pairs.clear()
                self._sets.clear()
                self._bytes = 0
            self._bytes += size
            shared = tuple(map(self._pair, found))
            self._sets[shared] = shared
        return shared

    def _pair(self, pair: tuple[str, str]) -> tuple[str, str]:
        if (shared := self._pairs.get(pair)) is None:
            shared = sys.intern(pair[0]), pair[1]
            self._pairs[shared] = shared
        return shared


of: Final = SharedLabels().of
