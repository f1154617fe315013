"""Which containers that Berth gave nothing to ask the runtime for cards all the same. Pure.

NVIDIA's runtime obeys the variable NVIDIA_VISIBLE_DEVICES of any container, and CUDA images set it to `all`.
So a pod that asked for no card would see all of them. A container keeps the variable where the kubelet gave
it devices of a device plugin, which sets the variable itself.
"""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Final

from berth_agent.delivery.containers import VISIBLE_DEVICES, Delivery
from berth_crds import names

NO_CARDS: Final = Delivery({VISIBLE_DEVICES: names.NO_CARDS})
# What the runtime takes for no card.
HARMLESS: Final = frozenset({"", "none", names.NO_CARDS})
ALL: Final = "all"


def asked_for(environment: Iterable[str]) -> str:
    """Return the cards that an environment asks the runtime for; empty where it asks for none."""
    pairs = (variable.partition("=") for variable in environment)
    words = [value for name, _, value in pairs if name == VISIBLE_DEVICES]
    return words[-1] if words and words[-1] not in HARMLESS else ""


def is_stray(asked: str, resources: Iterable[str] | None, patterns: Sequence[str]) -> bool:
    """Whether a container that asks for cards was given none by the kubelet, which gave it these resources.

    None are resources of a container that the kubelet does not list. It lists no init containers, so what a
    plugin may have written for one, the uuids of cards, is kept.
    """
    if resources is None:
        return asked == ALL
    return not any(fnmatch.fnmatchcase(name, pattern) for name in resources for pattern in patterns)
