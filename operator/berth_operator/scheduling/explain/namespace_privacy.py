"""Whose pods a condition or an event names: those of the waiting pod's own namespace.

Whoever may read a pod in one namespace need not know what runs in the others, so pods of
those are counted. What is for the people who run the cluster, the debug pages and the
simulator's tables, names them all.
"""

import dataclasses
from collections.abc import Iterable

from berth_operator.scheduling.explain import findings


def change(told: findings.Change, namespace: str) -> findings.Change:
    """Return a change that names no pods of other namespaces."""
    match told:
        case findings.Pair():
            first, second = (single(one, namespace) for one in told.changes)
            return dataclasses.replace(told, changes=(first, second))
        case _:
            return single(told, namespace)


def single(told: findings.Single, namespace: str) -> findings.Single:
    """Return a single change that names no pods of other namespaces."""
    if isinstance(told, findings.EndPods):
        return dataclasses.replace(told, titles=tuple(pods(told.titles, namespace)))
    return told


def namespaces(changes: Iterable[findings.Change], holders: Iterable[str]) -> set[str]:
    """Return the namespaces of all pods that these would name."""
    titles = list(holders)
    for change_ in changes:
        singles = change_.changes if isinstance(change_, findings.Pair) else (change_,)
        titles += [title for one in singles if isinstance(one, findings.EndPods) for title in one.titles]
    return {title.partition("/")[0] for title in titles}


def pods(titles: Iterable[str], namespace: str) -> Iterable[str]:
    """Return the titles of a namespace, and then how many there are of others."""
    others = 0
    for title in titles:
        if title.startswith(f"{namespace}/"):
            yield title
        else:
            others += 1
    if others:
        yield "1 pod of another namespace" if others == 1 else f"{others} pods of other namespaces"
