"""What may keep a container to its part of a card, by name."""

from typing import Final

NONE, MPS, HAMI_CORE = "none", "mps", "hami-core"
KINDS: Final = (NONE, MPS, HAMI_CORE)
