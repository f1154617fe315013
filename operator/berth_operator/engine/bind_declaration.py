"""For which pods binds may be under way, as the leader declares it ahead in its Lease.

A bind may arrive long after its leader is gone, at an API server that does not know that yet. It
names the revision of the pod that it was decided for, so that a new leader can make it void by
changing the pod. The declaration says which pods must be changed: those that are newer than a
revision, and some older ones by uid. Both are coarse on purpose. A new pod is covered from the start
and costs no further write, and an old one is declared together with many others that are likely to
be next.
"""

import dataclasses
import json
from typing import Final

FORMAT: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class BindDeclaration:
    """Binds may be under way for pods whose revision is above `after`, and for those with these uids."""

    after: int = 0
    uids: frozenset[str] = frozenset()

    def covers(self, uid: str, revision: int) -> bool:
        """Whether a bind of this pod, in this revision, may be under way."""
        return revision > self.after or uid in self.uids


EVERYTHING: Final = BindDeclaration(after=-1)


def encode(declared: BindDeclaration) -> str:
    """Return a declaration as text, the same for equal ones."""
    return json.dumps(
        {"v": FORMAT, "after": declared.after, "pods": sorted(declared.uids)}, separators=(",", ":")
    )


def decode(text: str | None) -> BindDeclaration:
    """Return the declaration of a text; one that is absent or cannot be read covers every pod."""
    try:
        record = json.loads(text or "")
        after, uids = record["after"], record["pods"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return EVERYTHING
    if record.get("v") != FORMAT or type(after) is not int or not _is_list_of_text(uids):
        return EVERYTHING
    return BindDeclaration(after, frozenset(uids))


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
