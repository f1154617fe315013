"""How cards are given out: whole, by replicas, or by their MIG instances, by NVIDIA's own choices. Pure.

By some of these choices `nvidia.com/gpu` asks for something else than a card on the node: it stands for the
resource that would ask for that elsewhere.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

import msgspec

from berth_crds import names, vocabulary, wire

NONE, SINGLE, MIXED = "none", "single", "mixed"
MIG_STRATEGIES: Final = (NONE, SINGLE, MIXED)


@dataclasses.dataclass(frozen=True, slots=True)
class CardModes:
    """How the cards of a node are given out.

    By `mig_strategy` a card in MIG mode is a whole one (none), or its instances are asked for by
    `nvidia.com/gpu` (single) or by their profiles (mixed). Cards that are not in MIG mode are shared as
    `sharing` says; where replicas are `renamed`, pods ask for them by `nvidia.com/gpu.shared`.
    """

    sharing: wire.Sharing | None = None
    renamed: bool = True
    mig_strategy: str = MIXED


USUAL: Final = CardModes()


def is_by_mps(sharing: wire.Sharing | None) -> bool:
    """Whether cards are shared by MPS."""
    return sharing is not None and sharing.strategy == vocabulary.SharingStrategy.MPS


def applied(card: wire.Card, modes: CardModes) -> wire.Card:
    """Return a card as it is given out."""
    if is_cut(card):
        # One that is cut into instances is not shared as a whole.
        return (
            msgspec.structs.replace(card, sharing=None) if modes.mig_strategy != NONE else _whole(card, modes)
        )
    return msgspec.structs.replace(card, sharing=modes.sharing)


def _whole(card: wire.Card, modes: CardModes) -> wire.Card:
    """Return a card in MIG mode without its instances."""
    return msgspec.structs.replace(card, mig=None, sharing=modes.sharing)


def gpu_stands_for(cards: Iterable[wire.Card], modes: CardModes) -> str:
    """Return which resource `nvidia.com/gpu` stands for on a node with these cards; empty for itself."""
    gpus = [card for card in cards if card.type == vocabulary.DeviceType.GPU]
    if modes.mig_strategy == SINGLE and any(map(is_cut, gpus)) and not fault(gpus, modes):
        return names.of_instances(min(_profiles(gpus)))
    shared = any(card.sharing for card in gpus)
    return names.NVIDIA_GPU_SHARED if shared and not modes.renamed else ""


def fault(cards: Iterable[wire.Card], modes: CardModes) -> str:
    """Return what keeps cards in MIG mode from being given out as they should; empty for nothing."""
    gpus = [card for card in cards if card.type == vocabulary.DeviceType.GPU]
    cut = [card for card in gpus if is_cut(card)]
    if empty := [card for card in cut if card.mig and not card.mig.instances]:
        return f"{_named(empty)} in MIG mode without instances: create some, or turn MIG mode off"
    if modes.mig_strategy != SINGLE or not cut:
        return ""
    if whole := [card for card in gpus if not is_cut(card)]:
        return (
            f"{_named(whole)} not in MIG mode, but others are:"
            " --mig-strategy=single needs every card to have the same MIG layout"
        )
    profiles = sorted(_profiles(gpus))
    if len(profiles) > 1:
        return f"the instances are of the profiles {', '.join(profiles)}: the strategy single wants one"
    return ""


def is_cut(card: wire.Card) -> bool:
    """Whether a card is in MIG mode, with instances or without."""
    return card.mig is not None and card.mig.enabled


def _profiles(cards: Iterable[wire.Card]) -> set[str]:
    return {instance.profile for card in cards if card.mig for instance in card.mig.instances}


def _named(cards: Iterable[wire.Card]) -> str:
    uuids = [card.uuid for card in cards]
    return f"the card {uuids[0]} is" if len(uuids) == 1 else f"{len(uuids)} cards, such as {uuids[0]}, are"
