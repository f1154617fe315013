"""The limits and patterns of the schema, in one table.

The models make the CRDs from it. The agent leaves out what the server would refuse, because the
server refuses a whole object for one bad value. The operator reads no more than this, whatever CRD
the server has. Nothing here needs pydantic.
"""

import functools
import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class TextFormat:
    """How long a text may be, and the pattern that the whole of it matches."""

    longest: int
    pattern: str

    @property
    def schema_pattern(self) -> str:
        """Return the pattern as a schema has it."""
        return f"^{self.pattern}$"

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """Return a regular expression for `fullmatch`."""
        return re.compile(rf"(?=.{{0,{self.longest}}}\Z)(?:{self.pattern})", re.DOTALL)

    def matches(self, text: str) -> bool:
        """Whether a text has this format."""
        return self.regex.fullmatch(text) is not None


_LOWERCASE: Final = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?"

# The leading and trailing characters of an identity are those of every uuid seen so far:
# GPU-…, MIG-GPU-…/7/0, rdma-0000:1f:00.0. A comma would break the lists made of them.
UUID: Final = TextFormat(64, "[A-Za-z0-9][A-Za-z0-9._:/-]*")
DNS_SUBDOMAIN: Final = TextFormat(253, _LOWERCASE)  # Names of nodes and pods.
DNS_LABEL: Final = TextFormat(63, "[a-z0-9]([a-z0-9-]*[a-z0-9])?")  # Names of containers and device types.
VENDOR: Final = TextFormat(63, _LOWERCASE)
MIG_PROFILE: Final = TextFormat(32, r"([1-9]c\.)?[1-9]g\.[1-9][0-9]*gb([+-][a-z]+(\.[a-z]+)*)*")
BUS_ID: Final = TextFormat(16, r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PCIE_ROOT: Final = TextFormat(16, "pci[0-9a-f]{4,8}:[0-9a-f]{2}")
CUDA_VERSION: Final = TextFormat(16, r"[0-9]+\.[0-9]+")
REASON: Final = TextFormat(128, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
# Kubernetes lets a scheduler have any name.
SCHEDULER: Final = TextFormat(253, r"[^\s,]+")
LABEL_NAME: Final = TextFormat(63, "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")  # What follows a prefix.
CONDITION_TYPE: Final = TextFormat(316, "[A-Za-z0-9]([A-Za-z0-9./_-]*[A-Za-z0-9])?")

# Characters.
LONGEST_MESSAGE: Final = 1024
LONGEST_MODEL: Final = 128
LONGEST_DRIVER_VERSION: Final = 64
LONGEST_BOOT_ID: Final = 64
LONGEST_SUMMARY: Final = 256
LONGEST_SHARE: Final = 512
LONGEST_RESOURCE: Final = 317  # Of a prefix, a slash and a name.
LONGEST_LABEL: Final = 253
LONGEST_URL: Final = 512
LONGEST_SELECTOR: Final = 256
LONGEST_COMMAND: Final = 63  # Of a process.

LARGEST_MINOR: Final = 2**31 - 1
LARGEST_MEMORY: Final = 2**50  # Bytes of one device; none comes near, and sums of many stay within 64 bits.
LARGEST_XID: Final = 65535
LARGEST_NUMA_NODE: Final = 1023
LARGEST_MODULE_ID: Final = 1023
LARGEST_MIG_ID: Final = 255  # Of a GPU instance or a compute instance.

# Entries of one list. With more than 64 under a rule, the server refuses what the rule may cost.
MOST_ENTRIES: Final = 64
MOST_DEVICES: Final = MOST_ENTRIES  # Of a node.
MOST_PARTITIONS: Final = MOST_ENTRIES
MOST_INSTANCES: Final = MOST_ENTRIES  # MIG instances of a card.
MOST_GRANTED: Final = MOST_ENTRIES  # Uuids of one container from one source.
MOST_GRANTS: Final = 128
MOST_OCCUPANTS: Final = 16  # Of a card: one is enough to close it.
MOST_VFS: Final = 256  # Of one group.
MOST_GROUPS: Final = 16  # Of virtual functions, of one device.
MOST_RECORDED: Final = 1024  # Uuids whose owner is recorded.
MOST_REPLICAS: Final = 1024
MOST_CORE: Final = 1000  # Percent of a card that a policy may promise in all.
MOST_OVERSALE_CLASSES: Final = 16
MOST_SCHEDULERS: Final = 16  # Whose records of cards are believed.
MOST_SLICES: Final = 64

# Of all devices of a Device together.
TOTAL_UUIDS: Final = 512  # 64 cards of seven instances each.
TOTAL_LINKS: Final = 512  # 16 cards that are all linked have 240, eight boards of eight 448.
TOTAL_FUNCTIONS: Final = 4096
TOTAL_LABELS: Final = 1024  # Of devices, and of groups of functions.
TOTAL_FUNCTION_LABELS: Final = 16384  # A group's labels count for each of its functions.
TOTAL_LABEL_TEXT: Final = 128 << 10
TOTAL_OCCUPANTS: Final = 512

# Of all containers and of all sources of a GpuPod together.
TOTAL_POD_DEVICES: Final = 1024  # 16 cards that each of 64 containers has a share of.
TOTAL_POD_GRANTED: Final = 2 * TOTAL_POD_DEVICES  # The kubelet and the driver may each name all of them.
