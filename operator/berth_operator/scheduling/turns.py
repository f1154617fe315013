"""In which order pods have their turn: between namespaces by priority, within one by its labels, too.

Anybody may write the label genius/priority on a pod, so it gives nobody a turn that is another
namespace's: a pod counts there for what its PriorityClass gives it, and for its label only as
far as the policy allows. But a namespace may use its turns as it likes. So where several of its
pods stand in line, those with the higher label take the turns of the others.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

Order = tuple[int, str, str, str]
LocalOrder = tuple[int, str, str]


class Group(NamedTuple):
    """Pods that may take each other's turns: those of a namespace that count as much for the others."""

    demoted: bool
    counts: int
    namespace: str


class Standing(Protocol):
    """A pod that stands in line."""

    @property
    def group(self) -> Group:
        """Whose turns it may take."""

    @property
    def local(self) -> LocalOrder:
        """Sort key among those of its group."""

    @property
    def favoured(self) -> bool:
        """Whether its label counts for more in its namespace than for the others."""


S = TypeVar("S", bound=Standing)


def among(entries: Sequence[S], first: Callable[[Group, int], Iterable[S]]) -> list[S]:
    """Return who has these turns: in each group, those with the highest labels.

    `first` names the favoured of a group that stand in line, in their order and at most so many,
    whether they are among these or not.
    """
    groups: dict[Group, list[int]] = collections.defaultdict(list)
    for at, entry in enumerate(entries):
        groups[entry.group].append(at)
    found = list(entries)
    for group, turns in groups.items():
        own = [entries[at] for at in turns]
        known = set(map(id, own))
        own += [one for one in first(group, len(turns)) if id(one) not in known]
        for at, entry in zip(turns, sorted(own, key=lambda one: one.local), strict=False):
            found[at] = entry
    return found
