"""What the schema of a Device takes of a card: with one that it refuses it refuses the whole list."""

import re
from typing import Final

MOST_MODULES: Final = 1023
MOST_SLICES: Final = 64
MOST_CARDS: Final = 64
MOST_INSTANCES: Final = 64
LARGEST_MINOR: Final = 2**31 - 1
LARGEST_MEMORY: Final = 2**63 - 1
LARGEST_ID: Final = 255  # Of a GPU or compute instance.
UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
CAPABILITY: Final = re.compile(r"[0-9]{1,7}\.[0-9]{1,7}")
PROFILE: Final = re.compile(r"(?=.{1,32}\Z)([1-9]c\.)?[1-9]g\.[1-9][0-9]*gb([+-][a-z]+(\.[a-z]+)*)*")
