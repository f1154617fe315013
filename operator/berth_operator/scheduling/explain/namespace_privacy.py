"""Whose pods a condition or an event names: those of the waiting pod's own namespace.

A user who may read a pod in one namespace need not know what runs in the others, so pods of
those are counted. What is for the people who run the cluster, the debug pages and the
simulator's tables, names them all.
"""

import itertools
from collections.abc import Iterable

from berth_operator.scheduling.changes import Change, FreeDevices, RemovePods
from berth_operator.scheduling.constraints import device_state
from berth_operator.scheduling.what_if.advice import Advice


def clause(change: Change, namespace: str | None) -> str:
    """Return what would have to happen, without the names of pods of other namespaces if there is one."""
    match change:
        case RemovePods() if namespace is not None:
            return change.clause_of(pods(change.titles, namespace))
        case device_state.RepairDevices():
            return change.clause_for(namespace)
        case _:
            return change.clause()


def namespaces(advice: Iterable[Advice], holders: Iterable[str]) -> set[str]:
    """Return the namespaces of all pods that these would name."""
    changes = [one for each in advice for one in each.changes]
    ended = (one.titles for one in changes if isinstance(one, RemovePods | FreeDevices))
    left = (one.titles for one in changes if isinstance(one, device_state.RepairDevices))
    titles = itertools.chain(holders, *ended, *left)
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
