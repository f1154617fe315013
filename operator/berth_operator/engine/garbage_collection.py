"""When Python looks for garbage: a little at a time, because nothing else happens meanwhile.

A look costs what has come since the last one and stayed, some milliseconds for each ten
thousand objects, and pods that say much are thousands. What was read at the start stays
for good, so it is not looked at again.
"""

import gc
from typing import Final

# Objects that stayed before the young are looked at; so many such looks before those that have stayed once
# are, all at once, and so many of these before all. The last is rare: what is made here hardly ever refers
# to itself.
THRESHOLDS: Final = (10_000, 4, 2_500)


def settle() -> None:
    """Look at everything once more, and from now on only at what comes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
