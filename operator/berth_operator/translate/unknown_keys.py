"""Faults of keys under Berth's group that have no meaning where they stand.

Such a key is most likely misspelt, and ignoring it would ignore a request. So it is refused, and
the sentence suggests the most similar known key, if there is one.
"""

import difflib
from collections.abc import Collection
from typing import Final

from berth_crds import aliases, names
from berth_operator.translate import device_annotations

PREFIX: Final = f"{names.GROUP}/"
RESOURCES: Final = frozenset(name for name in aliases.OWN if name.startswith(PREFIX))
ANNOTATIONS: Final = frozenset(device_annotations.READERS)
# Prefixes of the labels that agents write on Nodes; on a pod they request nothing.
NODE_PREFIXES: Final = (f"{PREFIX}gpu.", f"{PREFIX}cuda.")
MAX_COMPARED: Final = 64  # Characters that are compared; Kubernetes allows no more after the group.


def resource_fault(name: str) -> str:
    """Return what is wrong with the name of a resource."""
    return "is an annotation of pods, not a resource" if name in ANNOTATIONS else _unknown(name, RESOURCES)


def annotation_fault(key: str) -> str:
    """Return what is wrong with the key of an annotation."""
    if key in RESOURCES:
        return "is a resource of containers, not an annotation"
    return _unknown(key, ANNOTATIONS)


def label_fault(key: str) -> str:
    """Return what is wrong with the key of a label: Berth reads none under its group."""
    if key in RESOURCES:
        return "is a resource of containers, not a label"
    if key in ANNOTATIONS or key in device_annotations.UNSERVED:
        return "is an annotation of pods, not a label"
    return "" if key == names.FENCED_LABEL or key.startswith(NODE_PREFIXES) else _unknown(key, ANNOTATIONS)


def _unknown(key: str, known: Collection[str]) -> str:
    words = sorted(one.removeprefix(PREFIX) for one in known)
    near = difflib.get_close_matches(key.removeprefix(PREFIX)[:MAX_COMPARED].lower(), words, n=1)
    guess = f" Did you mean {PREFIX}{near[0]}?" if near else ""
    return f"is not known; is it misspelt?{guess}"
