"""What is said of a key under Berth's group that means nothing where it stands.

Such a key is most likely misspelt, and passed over it would be a wish that nobody reads: so it
is refused, with the known key that comes nearest, if one does.
"""

import difflib
from collections.abc import Collection
from typing import Final

from berth_crds import aliases, names
from berth_operator.translate import annotations

PREFIX: Final = f"{names.GROUP}/"
RESOURCES: Final = frozenset(name for name in aliases.OWN if name.startswith(PREFIX))
ANNOTATIONS: Final = frozenset(annotations.READERS)
# Beginnings of what agents write on Nodes; whoever copies it to a pod asks for nothing by it.
OF_NODES: Final = (f"{PREFIX}gpu.", f"{PREFIX}cuda.")
LONGEST: Final = 64  # Characters that are compared; Kubernetes takes no more behind the group.


def of_resource(name: str) -> str:
    """Return what is wrong with the name of a resource."""
    if name in ANNOTATIONS:
        return "is an annotation of pods, not a resource"
    return _unknown(name, RESOURCES)


def of_annotation(key: str) -> str:
    """Return what is wrong with the key of an annotation."""
    if key in RESOURCES:
        return "is a resource of containers, not an annotation"
    return _unknown(key, ANNOTATIONS)


def of_label(key: str) -> str:
    """Return what is wrong with the key of a label: Berth reads none under its group."""
    if key in RESOURCES:
        return "is a resource of containers, not a label"
    if key in ANNOTATIONS or key in annotations.UNSERVED:
        return "is an annotation of pods, not a label"
    return "" if key == names.FENCED_LABEL or key.startswith(OF_NODES) else _unknown(key, ANNOTATIONS)


def _unknown(key: str, known: Collection[str]) -> str:
    words = sorted(one.removeprefix(PREFIX) for one in known)
    near = difflib.get_close_matches(key.removeprefix(PREFIX)[:LONGEST].lower(), words, n=1)
    guess = f" Did you mean {PREFIX}{near[0]}?" if near else ""
    return f"is not known; is it misspelt?{guess}"
