"""How much all devices of a Device may say together.

The CRD makes rules of these figures (`totals`), and the operator reads no more, whatever CRD the server has.
"""

from typing import Final

UUIDS: Final = 512  # 64 cards of seven instances each.
LINKS: Final = 512  # 16 cards that are all linked have 240, eight boards of eight 448.
FUNCTIONS: Final = 4096
LABELS: Final = 1024  # Of devices, and of groups of functions.
FUNCTION_LABELS: Final = 16384  # A group's labels count for each of its functions.
TEXT: Final = 128 << 10
OCCUPANTS: Final = 512
