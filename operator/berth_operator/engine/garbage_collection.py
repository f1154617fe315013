"""Tuning of Python's garbage collector: small collections, because everything else waits for them.

A collection takes some milliseconds for each ten thousand objects that were made since the last one,
and a pod with a long spec has thousands. Objects that were read at the start stay for good, so they
are not collected again.
"""

import gc
from typing import Final

# New objects before the youngest generation is collected; collections of it before the middle generation
# is, and of that before all are. The last is rare: there are hardly any cycles of objects here.
THRESHOLDS: Final = (10_000, 4, 2_500)


def settle() -> None:
    """Collect everything once more, and from now on only new objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
