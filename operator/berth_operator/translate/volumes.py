"""Claims, PersistentVolumes, StorageClasses and what CSI drivers say, as the core knows them.

Anybody may write a claim, so a selector has limits, and of a claim beyond them it is not read. A name that is
longer than any name is kept as one that nothing has.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts
from berth_operator.translate import quantities, raw, raw_volumes

BOUND: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
STORAGE: Final = "storage"
LOST: Final = "Lost"
WAITS: Final = "WaitForFirstConsumer"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE_LABELS: Final = (OLD_ZONE, OLD_REGION, ZONE, REGION)
NEW_LABELS: Final = {OLD_ZONE: ZONE, OLD_REGION: REGION}
SEPARATOR: Final = "__"  # Of several zones in one label.
MAX_DRIVERS: Final = 64  # Of a node.
LONGEST_NAME: Final = 253  # Of any object, by the rules of Kubernetes.
# Of a selector, which is compared with each volume: labels and expressions, all values, and characters.
MAX_CONDITIONS: Final = 16
MAX_VALUES: Final = 64
MAX_CHARACTERS: Final = 1024


def read_claim(claim: raw_volumes.Claim) -> facts.Claim:
    """Return a claim."""
    meta, spec = claim.metadata, claim.spec
    requests = (spec.resources.requests if spec.resources else None) or {}
    volume = _name(spec.volume_name)
    # One that has a volume is not compared with others any more.
    selector = None if volume else spec.selector
    too_long = _is_too_long(selector)
    return facts.Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        volume=volume,
        is_bound=bool(volume) and BOUND in meta.annotations,
        is_lost=claim.status.phase == LOST,
        is_deleted=meta.deletion_timestamp is not None,
        owner=_name(next((one.uid for one in meta.owner_references if one.controller), "")),
        storage_class=_name(meta.annotations.get(OLD_CLASS, spec.storage_class_name)),
        attributes_class=_name(spec.volume_attributes_class_name),
        selected_node=_name(meta.annotations.get(SELECTED_NODE)),
        access_modes=frozenset(spec.access_modes or ()),
        mode=_name(spec.volume_mode) or facts.FILESYSTEM,
        size=quantities.demand(requests.get(STORAGE, 0)),
        selector=None if too_long else _selector(selector),
        is_too_long=too_long,
        version=meta.resource_version,
    )


def _name(text: str | None) -> str:
    """Return a name; of one that is too long the beginning, made so that it is no name."""
    return text if text and len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…" if text else ""


def read_volume(volume: raw_volumes.Volume) -> facts.Volume:
    """Return a PersistentVolume."""
    meta, spec, ref, csi = volume.metadata, volume.spec, volume.spec.claim_ref, volume.spec.csi
    return facts.Volume(
        name=meta.name,
        affinity=_affinity(spec.node_affinity),
        zones=zones(meta.labels),
        claim=(ref.namespace, ref.name) if ref is not None else None,
        claim_uid=ref.uid if ref is not None else "",
        phase=volume.status.phase,
        is_deleted=meta.deletion_timestamp is not None,
        storage_class=meta.annotations.get(OLD_CLASS, spec.storage_class_name or ""),
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes or ()),
        mode=spec.volume_mode or facts.FILESYSTEM,
        size=quantities.supply((spec.capacity or {}).get(STORAGE, 0)),
        driver=csi.driver if csi is not None else "",
        handle=csi.volume_handle if csi is not None else "",
        labels=tuple(meta.labels.items()),
        version=meta.resource_version,
    )


def read_class(storage_class: raw_volumes.StorageClass) -> facts.StorageClass:
    """Return a StorageClass."""
    terms = tuple(
        nodes.Term(tuple(_among(one.key, one.values) for one in term.match_label_expressions or ()))
        for term in storage_class.allowed_topologies or ()
    )
    return facts.StorageClass(
        name=storage_class.metadata.name,
        provisioner=storage_class.provisioner,
        waits_for_pod=storage_class.volume_binding_mode == WAITS,
        topologies=terms or None,
    )


def read_capacity(capacity: raw_volumes.Capacity) -> facts.Capacity:
    """Return a capacity; the largest volume that is possible counts where the driver tells it."""
    largest = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return facts.Capacity(
        key=(capacity.metadata.namespace, capacity.metadata.name),
        storage_class=capacity.storage_class_name,
        largest=quantities.supply(largest) if largest is not None else 0,
        topology=_selector(capacity.node_topology),
    )


def read_limits(node: raw_volumes.CsiNode) -> dict[str, int]:
    """Return how many volumes each CSI driver can attach to a node, as far as it has a limit."""
    allocatable = ((one.name, one.allocatable) for one in (node.spec.drivers or ())[:MAX_DRIVERS])
    return {name: one.count for name, one in allocatable if one is not None and one.count is not None}


# ---------------------------------------------------------------- conditions on labels


def _among(key: str, values: Iterable[str] | None) -> nodes.LabelExpression:
    return nodes.LabelExpression(key, "In", tuple(values or ()))


def _selector(selector: raw_volumes.LabelSelector | None) -> nodes.Term | None:
    if selector is None:
        return None
    pairs = (_among(key, (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    more = (
        nodes.LabelExpression(one.key, one.operator, one.values or ())
        for one in selector.match_expressions or ()
    )
    return nodes.Term((*pairs, *more))


def _is_too_long(selector: raw_volumes.LabelSelector | None) -> bool:
    """Whether a selector says more than is read."""
    if selector is None:
        return False
    labels, expressions = selector.match_labels or {}, selector.match_expressions or ()
    values = list(itertools.chain.from_iterable(one.values or () for one in expressions))
    words = itertools.chain(labels, labels.values(), (one.key for one in expressions), values)
    return (
        len(labels) + len(expressions) > MAX_CONDITIONS
        or len(values) > MAX_VALUES
        or sum(map(len, words)) > MAX_CHARACTERS
    )


def _affinity(affinity: raw_volumes.VolumeAffinity | None) -> facts.Terms | None:
    if affinity is None or affinity.required is None:
        return None
    return tuple(
        nodes.Term(_conditions(term.match_expressions), _conditions(term.match_fields))
        for term in affinity.required.node_selector_terms or ()
    )


def _conditions(expressions: Iterable[raw.Expression] | None) -> tuple[nodes.LabelExpression, ...]:
    return tuple(nodes.LabelExpression(one.key, one.operator, one.values or ()) for one in expressions or ())


def zones(labels: Mapping[str, str]) -> facts.Terms | None:
    """Return what the zone and region labels of a volume ask of a node; None if it has none.

    A node without any such label will do. One that has some needs each of them; for an old label that it
    lacks, the new one of the same meaning counts.
    """
    asked = [_zone(key, found) for key in ZONE_LABELS if (found := _values(labels.get(key, "")))]
    if not asked:
        return None
    nowhere = nodes.Term(tuple(nodes.LabelExpression(key, "DoesNotExist") for key in ZONE_LABELS))
    return (
        nowhere,
        *(nodes.Term(tuple(itertools.chain.from_iterable(one))) for one in itertools.product(*asked)),
    )


def _values(text: str) -> tuple[str, ...]:
    """Return the zones of a label; none if one of them is empty, for then the label says nothing."""
    values = {one.strip() for one in text.split(SEPARATOR)}
    return () if "" in values else tuple(sorted(values))


def _zone(key: str, values: tuple[str, ...]) -> list[tuple[nodes.LabelExpression, ...]]:
    """Return the ways in which a node may be in one of these zones."""
    ways = [(_among(key, values),)]
    if (new := NEW_LABELS.get(key)) is None:
        return [*ways]
    return [*ways, (nodes.LabelExpression(key, "DoesNotExist"), _among(new, values))]
