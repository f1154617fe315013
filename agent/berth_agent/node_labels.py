"""The labels of a Node, in the style of NVIDIA's feature discovery. Pure.

Labels are for node selectors, autoscalers and people. They follow from the spec of the Device, so
one lost card does not remove them. A label says what all cards have in common, and is left out
where they differ; each model has a label of its own with the number of its cards. `labels` is the
place to add one; `publish.label_writer` writes them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth_crds import catalog, names, vocabulary, wire

PREFIXES: Final = (f"{names.GROUP}/gpu.", f"{names.GROUP}/cuda.")
LONGEST: Final = 63
LONGEST_MODEL: Final = LONGEST - len("gpu.model.")

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


def ours(key: str) -> bool:
    """Whether a label is one of those that the agent writes."""
    return key.startswith(PREFIXES)


def labels(spec: wire.DeviceSpec) -> Mapping[str, str]:
    """Return the labels for the Node of a Device; none for a node without GPUs."""
    cards = [card for card in spec.devices if card.type == vocabulary.DeviceType.GPU]
    if not cards:
        return {}
    found = {f"gpu.{key}": text for key, text in _of_cards(cards)}
    if spec.driver:
        found |= {f"cuda.driver-version.{key}": text for key, text in _version(spec.driver.version)}
        found |= {f"cuda.runtime-version.{key}": text for key, text in _version(spec.driver.cuda)}
    return {f"{names.GROUP}/{key}": text for key, text in sorted(found.items())}


def _of_cards(cards: Iterable[wire.Card]) -> Iterator[tuple[str, str]]:
    listed = list(cards)
    models = [_label(catalog.normal_model(card.model)) for card in listed]
    yield "count", str(len(listed))
    yield from (
        (f"model.{model[:LONGEST_MODEL].rstrip('-_.')}", str(models.count(model)))
        for model in models
        if model
    )
    yield from _common("product", models)
    yield from _common("memory", (str(card.memory // catalog.MIB) if card.memory else "" for card in listed))
    yield from _common("mig", (_mig(card) for card in listed))
    yield from _common("sharing-strategy", (card.sharing.strategy if card.sharing else "" for card in listed))
    yield from _common("replicas", (str(card.sharing.replicas) if card.sharing else "" for card in listed))
    for capability in _only(card.compute_capability for card in listed):
        major, _, minor = capability.partition(".")
        yield "compute.major", _label(major) or "0"
        yield "compute.minor", _label(minor) or "0"
        yield "family", family(capability)


def family(capability: str) -> str:
    """Return the family of a compute capability."""
    number = tuple(int(part) for part in capability.split(".") if part.isdecimal())
    return next((name for first, name in FAMILIES if number >= first), "undefined")


def _mig(card: wire.Card) -> str:
    if card.mig is None:
        return ""
    return "enabled" if card.mig.enabled else "disabled"


def _common(key: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from ((key, value) for value in _only(values))


def _only(values: Iterable[str]) -> Iterator[str]:
    """Yield the value that all cards have, if there is one."""
    found = set(values)
    if len(found) == 1 and (value := found.pop()):
        yield value


def _version(text: str) -> Iterator[tuple[str, str]]:
    if not (full := _label(text)):
        return
    yield "full", full
    parts = zip(("major", "minor", "revision"), map(_label, text.split(".")), strict=False)
    yield from ((key, part) for key, part in parts if part)


def _label(text: str) -> str:
    """Return a text as the value of a label."""
    return _FOREIGN.sub("-", text)[:LONGEST].strip("-_.")
