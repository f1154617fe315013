"""KubeGPU's record of what each container asks for: counts of cards, or paths in the tree of a node.

A path such as `alpha/grpresource/gpugrp0/A/gpu/0/cards` names one card, in a group of cards below one PCIe
root; a group `gpugrp1` around that is all cards of a node. Its names are those of the pod: it wants as many
cards as it has paths, and those of one group close together. What does not come down to that, such as several
groups or a part of a card's memory, is refused.

People write `requests`. KubeGPU's scheduler turns these into `devrequests` and finds `allocatefrom` for them,
in place of what stood there before. So these two ask for nothing: they may come from a pod that ran, whose
record was copied. Where nothing else asks for cards, the pod is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from berth_crds import aliases, names
from berth_operator.translate import pod_limits, refusals
from berth_operator.translate.json_objects import as_mapping

SECTIONS: Final = ("initcontainer", "runningcontainer")
ANSWERS: Final = ("devrequests", "allocatefrom")
CARDS: Final = "/cards"  # How the path of a card ends.
_LEVEL: Final = "[A-Za-z0-9._-]{1,128}"
PATH: Final = re.compile(
    f"(?:{'|'.join(aliases.KUBEGPU_PATHS)})"
    f"(?:gpugrp1/(?P<outer>{_LEVEL})/)?(?:gpugrp0/(?P<inner>{_LEVEL})/)?gpu/(?P<card>{_LEVEL})/cards"
)

Requests = Mapping[str, object]


class CardPath(NamedTuple):
    """One card, and the groups that it is in; empty where it is in none."""

    outer: str
    inner: str
    card: str


def asking(place: str, record: Mapping[str, object]) -> list[tuple[str, Requests]]:
    """Return the containers of a record that ask for anything, each with its requests."""
    return _containers(place, record, "requests")


def answered(place: str, record: Mapping[str, object]) -> Iterator[tuple[str, str, int]]:
    """Yield the containers with devices in a scheduler's answer: which answer that is, and how many cards."""
    for answer in ANSWERS:
        for name, devices in _containers(place, record, answer):
            keys = [key for key, value in devices.items() if _is_device(key) and str(value) != "0"]
            if keys:
                yield name, answer, sum(key.endswith(CARDS) for key in keys)


def _containers(place: str, record: Mapping[str, object], field: str) -> list[tuple[str, Requests]]:
    """Return the containers of a record that have anything in a field, each with that."""
    found = [
        (name, listed)
        for section in SECTIONS
        for name, container in as_mapping(place, record.get(section)).items()
        if (listed := as_mapping(place, as_mapping(place, container).get(field)))
    ]
    return list(pod_limits.check_count(place, "containers", found, pod_limits.MAX_ASKS))


def _is_device(key: str) -> bool:
    return key in aliases.KUBEGPU_COUNTS or key.startswith(aliases.KUBEGPU_PATHS)


def counts(place: str, requests: Requests) -> Iterator[tuple[str, str]]:
    """Yield by which key a container asks for how many cards."""
    counted = [(key, str(value)) for key, value in requests.items() if key in aliases.KUBEGPU_COUNTS]
    paths = _paths(place, requests)
    if paths and counted:
        _decline(place)
    yield from counted
    if paths:
        yield names.NVIDIA_GPU, str(len(paths))


def is_grouped(place: str, containers: Iterable[tuple[str, Requests]]) -> bool:
    """Whether the cards of a pod are to be below one PCIe root; they must be those of one container."""
    containers = list(containers)
    grouped = [paths for _, requests in containers if (paths := _paths(place, requests)) and _is_group(paths)]
    if grouped and sum(any(counts(place, requests)) for _, requests in containers) > 1:
        _decline(place)
    return bool(grouped)


def _is_group(paths: set[CardPath]) -> bool:
    return len(paths) > 1 and any(one.inner for one in paths)


def _paths(place: str, requests: Requests) -> set[CardPath]:
    """Return the cards that are asked for by their paths, which are all in one group or in none."""
    found: set[CardPath] = set()
    for key, value in requests.items():
        if not key.startswith(aliases.KUBEGPU_PATHS) or str(value) == "0":
            continue
        if (match := PATH.fullmatch(key)) is None or str(value) != "1":
            _decline(place)
        found.add(CardPath(match["outer"] or "", match["inner"] or "", match["card"]))
    if len({(one.outer, one.inner) for one in found}) > 1:
        _decline(place)
    return found


def _decline(place: str) -> NoReturn:
    refusals.decline(f"{place} asks for devices by their path, which is not served; count the cards")
