"""The labels of devices that follow from what the driver and the kernel say of them. Pure.

Pods choose devices by them, so each value is one that a selector can name. What is unknown has no label.
"""

import re
from collections.abc import Mapping
from typing import Final

from berth_agent import probe
from berth_crds import catalog

LONGEST: Final = 63

PRODUCT: Final = "product"
FAMILY: Final = "family"
CAPABILITY: Final = "computeCapability"
DRIVER: Final = "driver"

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")

# Compute capability from which on a card is of this family, as NVIDIA names them.
FAMILIES: Final = (
    ((13, 0), "rubin"),
    ((10, 0), "blackwell"),
    ((9, 0), "hopper"),
    ((8, 9), "ada-lovelace"),
    ((8, 0), "ampere"),
    ((7, 5), "turing"),
    ((7, 0), "volta"),
    ((6, 0), "pascal"),
    ((5, 0), "maxwell"),
    ((3, 0), "kepler"),
    ((2, 0), "fermi"),
    ((1, 0), "tesla"),
)


def of_card(card: probe.Card) -> Mapping[str, str]:
    """Return the labels of a card: its product, and of a CUDA card capability and family."""
    capability = value(card.compute_capability)
    found = {
        PRODUCT: value(catalog.normal_model(card.model)),
        CAPABILITY: capability,
        FAMILY: capability and family(capability),
    }
    return {key: text for key, text in found.items() if text}


def of_driver(driver: str) -> Mapping[str, str]:
    """Return the label of a PCI device or virtual function that a driver of the kernel has."""
    return {DRIVER: text} if (text := value(driver)) else {}


def family(capability: str) -> str:
    """Return the family of a compute capability."""
    number = tuple(int(part) for part in capability.split(".") if part.isdecimal())
    return next((name for first, name in FAMILIES if number >= first), "undefined")


def value(text: str) -> str:
    """Return a text as the value of a label."""
    return _FOREIGN.sub("-", text)[:LONGEST].strip("-_.")
