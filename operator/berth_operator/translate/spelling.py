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


def _unknown(key: str, known: Collection[str]) -> str:
    words = sorted(one.removeprefix(PREFIX) for one in known)
    near = difflib.get_close_matches(key.removeprefix(PREFIX)[:LONGEST].lower(), words, n=1)
    guess = f" Did you mean {PREFIX}{near[0]}?" if near else ""
    return f"is not known; is it misspelt?{guess}"
