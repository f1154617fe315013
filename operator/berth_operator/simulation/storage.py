"""Claims, PersistentVolumes and what describes storage, from manifests; in a cluster watches show them.

No controller binds claims here. A PersistentVolume that was written by hand has no phase: it is available.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from berth_operator.scheduling.volumes import facts, index
from berth_operator.simulation import manifests
from berth_operator.translate import volumes

Apply = Callable[[index.Volumes, Any], None]


def _apply_volume(known: index.Volumes, volume: Any) -> None:
    found = volumes.read_volume(volume)
    if not found.phase and found.claim is None:
        status = msgspec.structs.replace(volume.status, phase=facts.AVAILABLE)
        found = volumes.read_volume(msgspec.structs.replace(volume, status=status))
    known.put_volume(found)


APPLY: Final[Mapping[str, Apply]] = {
    "PersistentVolumeClaim": lambda known, one: known.put_claim(volumes.read_claim(one)),
    "PersistentVolume": _apply_volume,
    "StorageClass": lambda known, one: known.put_class(volumes.read_class(one)),
    "CSIDriver": lambda known, one: known.put_driver(
        one.metadata.name, tracks_capacity=bool(one.spec.storage_capacity)
    ),
    "CSINode": lambda known, one: known.put_limits(one.metadata.name, volumes.read_limits(one)),
    "CSIStorageCapacity": lambda known, one: known.put_capacity(volumes.read_capacity(one)),
}
REMOVE: Final[Mapping[str, Callable[[index.Volumes, str, str], None]]] = {
    "PersistentVolumeClaim": lambda known, namespace, name: known.drop_claim((namespace, name)),
    "PersistentVolume": lambda known, _, name: known.drop_volume(name),
    "StorageClass": lambda known, _, name: known.drop_class(name),
    "CSIDriver": lambda known, _, name: known.put_driver(name, tracks_capacity=False),
    "CSINode": lambda known, _, name: known.put_limits(name, {}),
    "CSIStorageCapacity": lambda known, namespace, name: known.drop_capacity((namespace, name)),
}


def apply(known: index.Volumes, manifest: manifests.Manifest) -> None:
    """Apply an object, if it is about storage; one that was written by hand may lack its namespace."""
    if (put := APPLY.get(manifest.kind)) is not None:
        value = manifest.value
        meta = msgspec.structs.replace(value.metadata, name=manifest.name, namespace=manifest.namespace)
        put(known, msgspec.structs.replace(value, metadata=meta))


def remove(known: index.Volumes, kind: str, namespace: str, name: str) -> None:
    """Record that an object is gone, if it was about storage."""
    if (drop := REMOVE.get(kind)) is not None:
        drop(known, namespace, name)
