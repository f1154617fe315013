"""A node's cards in a few words: what `kubectl get devices` shows of the operator's knowledge.

Made from one row of the inventory, as plain values that may cross into another thread.
"""

import collections
import dataclasses

from berth_operator.engine import audits
from berth_operator.scheduling import inventory, rows
from berth_operator.scheduling.decisions import Reason

TROUBLE_WORDS: dict[Reason, str] = {
    Reason.UNHEALTHY: "unhealthy",
    Reason.CORDONED: "cordoned",
    Reason.OCCUPIED: "occupied by strangers",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a node's cards, whether its agent is alive, and what is wrong, if anything."""

    node: str
    free: int
    used: int
    healthy: int
    silent: bool
    reason: str = ""


def summary(row: rows.Row) -> Summary | None:
    """Sum a node up; None where there is no Device."""
    if row.device is None:
        return None
    view = row.view()
    cards = view.device.cards
    unused = sum(view.open and card.trouble is None and view.unused(card) for card in cards)
    return Summary(
        node=row.name,
        free=max(0, unused - view.withheld),
        used=sum(not view.unused(card) for card in cards),
        healthy=sum(card.trouble is not Reason.UNHEALTHY for card in cards),
        silent=row.silent,
        reason=reason(row),
    )


def reason(row: rows.Row) -> str:
    """Say in a few words why cards of the node are not given out."""
    parts = []
    if row.silent:
        parts.append("agent silent")
    if row.device is not None and row.device.failed:
        parts.append(row.device.failed)
    if row.device is not None:
        troubles = collections.Counter(card.trouble for card in row.device.cards if card.trouble)
        parts += [f"{_cards(count)} {TROUBLE_WORDS[what]}" for what, count in sorted(troubles.items())]
    if withheld := sum(1 for hold in row.holds.values() if hold.withheld):
        parts.append(f"{withheld} {'pod' if withheld == 1 else 'pods'} without a readable allocation")
    if wrong := sum(1 for _ in audits.findings(row)):
        parts.append(f"{wrong} {'device' if wrong == 1 else 'devices'} not as promised to pods")
    return "; ".join(parts)


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count} cards"


def take(picture: inventory.Inventory, nodes: set[str]) -> list[Summary]:
    """Sum up these nodes, in the order of their names."""
    found = []
    for name in sorted(nodes):
        row = picture.row(name)
        one = summary(row) if row is not None else None
        if one is not None:
            found.append(one)
    return found
