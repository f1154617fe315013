"""Summaries of nodes: what `kubectl get devices` shows of the inventory.

A summary is made of one node of the inventory, as plain values that may cross into another thread. How often
summaries are written is in `kube.summary_reporter` (FLUSH_SECONDS).
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Final

from berth_crds import schema_limits, text
from berth_crds.client import cooperative
from berth_operator.engine import device_audit, ports, sick_cards
from berth_operator.scheduling import node_info, uuid_ownership
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, device_view, occupants
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.uuid_records import Origin

MOST_NAMED: Final = 4  # Nodes that publish the same cards, or words of a cordon.
CORDONED: Final = "node is cordoned"
TANGLED: Final = "links and partitions ignored: the number of NVLink partitions is implausible"
TROUBLES: dict[Reason, str] = {
    Reason.UNHEALTHY: "unhealthy",
    Reason.CARD_CORDONED: "cordoned",
    Reason.OCCUPIED: "used by other processes",
    Reason.INVALID_ALLOCATION: "reserved for a pod without a valid allocation annotation",
    Reason.DUPLICATE_UUID: "with a UUID that another node reports too",
}


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSummary:
    """Counts of a node's cards, whether its agent is alive, and what is wrong, if anything."""

    node: str
    free: int
    used: int
    healthy: int
    silent: bool
    reason: str = ""
    in_use: str = ""  # How many cards pods hold, parts added up.
    claims: tuple[str, ...] = ()  # The uuids that belong to the node, to be recorded.
    disputed: tuple[str, ...] = ()  # Those that it publishes and has not surely.
    origins: tuple[tuple[str, Origin], ...] = ()  # From which nodes they came.
    failed: str = ""  # The failed source of its agent, if no card is given out for that.
    cordoned: tuple[str, ...] = ()  # The uuids of its cordoned devices.
    unmatched_cordon: tuple[str, ...] = ()  # Entries of the cordon that name none of its devices.


def summary(info: node_info.NodeInfo, owners: uuid_ownership.UuidOwnership) -> NodeSummary | None:
    """Return the summary of a node; None if it has no Device, or if what it says of the agent is unknown."""
    if info.device is None or info.unknown:
        return None
    view = info.view()
    cards = view.device.cards
    record = owners.record(info.name)
    unused = sum(view.in_service and card.trouble is None and view.unused(card) for card in cards)
    return NodeSummary(
        node=info.name,
        free=0 if info.cordoned else max(0, unused - view.withheld),
        used=sum(not view.unused(card) for card in cards),
        healthy=sum(card.trouble is not Reason.UNHEALTHY for card in cards) if info.agent_is_live else 0,
        silent=info.agent_not_ready,
        in_use=_rounded(sum(_part_in_use(view, card) for card in cards)),
        # As long as the field may be: a longer one would have the whole status refused.
        reason=text.line("; ".join(filter(None, _reasons(info, owners)))),
        claims=tuple(sorted(record.claims))[: schema_limits.MOST_RECORDED],
        disputed=tuple(sorted(record.disputed))[: schema_limits.MOST_RECORDED],
        origins=tuple(sorted(record.origins.items()))[: schema_limits.MOST_RECORDED],
        failed=info.device.failed,
        cordoned=tuple(
            one.uuid for one in (*cards, *view.device.others) if one.trouble is Reason.CARD_CORDONED
        ),
        unmatched_cordon=info.device.astray,
    )


def _part_in_use(view: device_view.View, card: PhysicalDevice) -> float:
    """Return which part of a card pods hold: the larger of compute and memory, that of instances included."""
    used = view.usage(card.uuid)
    instances = sum(one.memory for one in card.instances if view.usage(one.uuid) != device_view.UNUSED)
    memory = (used.memory + instances) / card.memory if card.memory else 0.0
    return min(1.0, max(used.core / device_view.FULL_CORE, memory))


def _rounded(cards: float) -> str:
    """Write a number of cards with one decimal, or none: what is in use is never nothing."""
    tenths = max(round(cards * 10), 1) if cards else 0
    return f"{tenths / 10:g}"


def _reasons(info: node_info.NodeInfo, owners: uuid_ownership.UuidOwnership) -> tuple[str, ...]:
    """Return the reasons and warnings of a node; some of them may be empty."""
    return (
        reason(info),
        cordon_warning(info.device.astray if info.device is not None else ()),
        contested(info.name, owners),
        lost_claims(info.name, owners),
    )


def contested(node: str, owners: uuid_ownership.UuidOwnership) -> str:
    """Return which other nodes publish cards of this one, and which node owns them, as a phrase."""
    others: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for uuid, nodes in owners.contested(node).items():
        for other in nodes:
            others[other, _claim(uuid, other, owners)].add(uuid)
    return "; ".join(
        f"{_counted(len(uuids), 'UUID')} {words}" for (_, words), uuids in sorted(others.items())[:MOST_NAMED]
    )


def lost_claims(node: str, owners: uuid_ownership.UuidOwnership) -> str:
    """Return how many cards of the node belonged to another that claims them no more, as a phrase."""
    count = len(owners.late(node))
    reported = _counted(count, "UUID was", "UUIDs were")
    return f"{reported} first reported by another node" if count else ""


def _claim(uuid: str, node: str, owners: uuid_ownership.UuidOwnership) -> str:
    if uuid not in owners.of(node):
        return f"held by pods on {node}"
    return f"reported by {node} {'first' if owners.keeper(uuid) == node else 'too'}"


def cordon_warning(astray: tuple[str, ...]) -> str:
    """Return which entries of a cordon name no device, as a phrase."""
    more = f" and {len(astray) - MOST_NAMED} more" if len(astray) > MOST_NAMED else ""
    return f"cordon names no device: {', '.join(astray[:MOST_NAMED])}{more}" if astray else ""


def reason(info: node_info.NodeInfo) -> str:
    """Return why cards of the node are not given out, as phrases."""
    parts = list(_of_node(info))
    if info.device is not None:
        troubles = collections.Counter(card.trouble for card in info.device.cards if card.trouble)
        if info.device.topology.tangled:
            parts.append(TANGLED)
        if info.device.table_fault:
            parts.append(info.device.table_fault)
        parts += [f"{_counted(count, 'card')} {TROUBLES[what]}" for what, count in sorted(troubles.items())]
        parts += _occupants(info, info.device)
    parts += sick_cards.phrases(info)
    if info.uncounted:
        kinds = _counted(info.uncounted, "MIG profile or device type", "MIG profiles or device types")
        parts.append(f"{kinds} over the cluster limit")
    if withheld := sum(1 for hold in info.holds.values() if hold.withheld or hold.withheld_types):
        pods = _counted(withheld, "pod")
        parts.append(f"{pods} whose allocation annotation is missing or unreadable")
    if wrong := sum(1 for _ in device_audit.node_findings(info)):
        parts.append(f"{_counted(wrong, 'device is', 'devices are')} missing or overcommitted")
    return "; ".join(parts)


def _occupants(info: node_info.NodeInfo, device: device_facts.Device) -> Iterator[str]:
    """Yield by which processes, or pods, cards are used that nobody gave them."""
    occupied = (card for card in device.cards if card.trouble is Reason.OCCUPIED and card.occupants)
    for card in itertools.islice(occupied, MOST_NAMED):
        users = occupants.only_of(card.occupants, {hold.title for hold in info.holds.values()})
        yield f"{sick_cards.name(card)} used by {occupants.words(users)}"


def _of_node(info: node_info.NodeInfo) -> Iterator[str]:
    """Yield why no card of a node is given out, as phrases."""
    if info.cordoned:
        yield CORDONED
    if info.agent_not_ready:
        yield "agent silent"
    if info.quarantine:
        yield f"quarantined: {info.quarantine}"
    namespace, why = info.namespace_quarantine
    if namespace:
        yield f"quarantined for namespace {namespace}: {why}"
    if info.device is not None and info.device.failed:
        yield info.device.failed


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def summarize(inventory: Inventory, nodes: set[str]) -> list[NodeSummary]:
    """Return the summaries of these nodes, in the order of their names."""
    infos = (inventory.node(name) for name in sorted(nodes))
    found = (summary(info, inventory.uuid_ownership) for info in infos if info is not None)
    return [one for one in found if one is not None]


def portions(inventory: Inventory, nodes: set[str], clock: ports.Clock) -> Iterator[list[NodeSummary]]:
    """Yield the summaries of these nodes, some at a time, each as the node is at that moment."""
    summaries = (found for name in sorted(nodes) for found in summarize(inventory, {name}))
    return cooperative.portions(summaries, clock)
