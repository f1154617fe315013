"""What the daemon of MPS is told of the cards that it serves. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from berth_agent import card_modes
from berth_crds import catalog, vocabulary, wire

# How many programs MPS serves on one card, by its compute capability: NVIDIA's own figures.
CLIENTS: Final = 48
OLD_CLIENTS: Final = 16
SINCE: Final = (7, 5)
WHOLE: Final = 100


def served(cards: Iterable[wire.Card]) -> tuple[wire.Card, ...]:
    """Return the cards that MPS can serve."""
    gpus = (card for card in cards if card.type == vocabulary.DeviceType.GPU)
    return tuple(card for card in gpus if not card_modes.is_cut(card))


def commands(cards: Sequence[wire.Card], sharing: wire.Sharing | None) -> tuple[str, ...]:
    """Return the commands that give each replica its part of cards, which the daemon numbers in this order.

    Without replicas programs bring their own limits, and what an earlier agent may have said is undone.
    """
    memory = (
        f"set_default_device_pinned_mem_limit {at} {card.memory // _replicas(sharing) // catalog.MIB}M"
        for at, card in enumerate(cards)
        if card.memory
    )
    return (*memory, f"set_default_active_thread_percentage {percentage(sharing)}")


def percentage(sharing: wire.Sharing | None) -> int:
    """Return how much of the compute a program has that brings no limit."""
    return WHOLE // _replicas(sharing)


def _replicas(sharing: wire.Sharing | None) -> int:
    return sharing.replicas if sharing and _by_mps(sharing) else 1


def excess_of_clients(cards: Sequence[wire.Card], sharing: wire.Sharing | None) -> str:
    """Return that a card has more replicas than MPS serves programs, as a clause; empty if none has."""
    for card in cards if _by_mps(sharing) else ():
        most = CLIENTS if _capability(card) >= SINCE else OLD_CLIENTS
        if sharing and sharing.replicas > most:
            return f"it serves {most} programs on {card.uuid}, which is to have {sharing.replicas} replicas"
    return ""


def _by_mps(sharing: wire.Sharing | None) -> bool:
    return sharing is not None and sharing.strategy == vocabulary.SharingStrategy.MPS


def _capability(card: wire.Card) -> tuple[int, ...]:
    """Return the compute capability; the newest where it is not known."""
    if not card.compute_capability:
        return SINCE
    return tuple(int(part) for part in card.compute_capability.split(".") if part.isdecimal())
