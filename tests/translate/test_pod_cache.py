"""A cached request is the one that would be read."""

import collections
import itertools
from typing import Any, Final

import pytest

from berth_crds import aliases, names
from berth_operator.translate import pod_cache, pods, raw
from support import builders

KIBIBYTE: Final = 1024
POD: Final = builders.pod("a", gpus=1)
ROWS: Final[tuple[aliases.Amount | aliases.Option, ...]] = (*aliases.ON_PODS, *aliases.OPTIONS)


def keys(**changes: Any) -> tuple[bytes, bytes]:
    """Return the keys of a pod of one card with these changes, waiting and bound."""
    pod = builders.pod("a", gpus=1, **changes)
    return pod_cache.waiting_key(pod), pod_cache.bound_key(pod)


def test_pods_of_one_workload_share_what_they_ask() -> None:
    """Pods that differ in nothing but their names are read once."""
    one, other = (pods.pod_info(builders.pod(name, gpus=1)) for name in "ab")

    assert (one.name, other.name) == ("a", "b")
    assert one.request is other.request
    assert one.demand is other.demand


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [builders.container(gpus=2)]},
        {"nodeSelector": {"a": "b"}},
        {"priority": 7},
        {"overhead": {"cpu": "1"}},
        {"annotations": {names.MODEL: "H100"}},
        *({"labels" if row.where is aliases.Where.LABEL else "annotations": {row.key: "1"}} for row in ROWS),
    ],
    ids=str,
)
def test_whatever_a_pod_asks_is_told_apart(change: dict[str, Any]) -> None:
    """A pod that requests anything else, in any project's keys, has keys of its own, waiting and bound."""
    assert all(one != other for one, other in zip(keys(), keys(**change), strict=True))


# What makes no difference to what a pod asks, and whether it waits.
THE_SAME: dict[str, tuple[dict[str, Any], bool]] = {
    "where it is and what it got": (
        {
            "nodeName": "n",
            "annotations": {
                names.ALLOCATION: "x",
                names.TERM: "t/1",
                names.container_key("main", "uuids"): "GPU-1",
            },
        },
        False,
    ),
    "tolerations, which people may add to a pod that runs": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        False,
    ),
    "images, which people may edit of a pod that runs": (
        {"containers": [builders.container(gpus=1, image="b")]},
        False,
    ),
    "what others write": (
        {"labels": {"step": "7"}, "annotations": {"cni.example.com/ip": "10.0.0.7", "note": "x"}},
        True,
    ),
}


@pytest.mark.parametrize(("change", "waits"), THE_SAME.values(), ids=THE_SAME.keys())
def test_what_is_not_asked_makes_no_difference(change: dict[str, Any], *, waits: bool) -> None:
    """Bound pods of one workload share a key, and what nobody reads is no reason to read a pod again."""
    waiting, bound = keys(**change)

    assert bound == keys()[1]
    assert (waiting == keys()[0]) is waits


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_misspelt_key_is_a_part_of_what_a_waiting_pod_asks(where: str) -> None:
    """What is refused because it is not known makes a difference, too."""
    assert keys()[0] != keys(**{where: {f"{names.GROUP}/modle": "H100"}})[0]


def cache(size: int) -> pod_cache.PodCache[str]:
    """Return a cache of pods whose requests take so many bytes."""
    return pod_cache.PodCache(lambda pod: pod.metadata.name, lambda _: size)


def of(namespace: str) -> raw.Pod:
    """Return a pod of a namespace."""
    return builders.pod("a", gpus=1, meta={"namespace": namespace})


def long_key(number: int) -> bytes:
    """Return a key of which only a digest is kept."""
    return b"x" * pod_cache.MAX_KEY_BYTES + str(number).encode().zfill(9)


def test_a_long_pod_is_read_once() -> None:
    """A very long pod is cached like any other, and not taken for a longer one."""
    count = itertools.count(1)
    known = pod_cache.PodCache(lambda _: next(count), lambda _: 0)

    assert [known(POD, long_key(1)), known(POD, long_key(1)), known(POD, long_key(1) + b"y")] == [1, 1, 2]


def test_little_is_kept_of_much() -> None:
    """Neither many kinds of pods nor very long ones take more memory than is set aside, short ones stay."""
    known, most = cache(KIBIBYTE), pod_cache.MAX_BYTES // KIBIBYTE
    for number in range(pod_cache.MAX_ENTRIES + 1):
        known(POD, str(number).encode())
    for number in range(most + 1):
        known(POD, long_key(number))

    assert str(pod_cache.MAX_ENTRIES).encode() in known._short.entries
    assert len(known._short.entries) <= pod_cache.MAX_ENTRIES
    assert len(known._long.entries) < most
    assert max(map(len, known._long.entries)) <= 64, "digests"


def test_who_has_much_to_say_does_not_displace_others() -> None:
    """A namespace whose pods need more than there is room for has its own read again, and no others."""
    known, crowd = cache(9 * KIBIBYTE), of("loud")
    for name in ("a", "b", "c"):
        known(of(name), name.encode())
    for number in [*range(pod_cache.MAX_BYTES // KIBIBYTE)] * 2:
        known(crowd, str(number).encode())

    assert {b"a", b"b", b"c"} <= known._short.entries.keys()
    assert len(known._short.entries) > pod_cache.MAX_BYTES // (10 * KIBIBYTE), "all room is used"


def test_namespaces_share_what_room_there_is() -> None:
    """A namespace with less than its share keeps all of it, and one with more has that share at least."""
    known, a, b, c = cache(0), of("a"), of("b"), of("c")
    for _ in range(2):
        for number in range(pod_cache.MAX_ENTRIES):
            known(a, f"a{number}".encode())
            known(b, f"b{number}".encode())
        for number in range(pod_cache.MAX_ENTRIES // 4):
            known(c, f"c{number}".encode())

    kept = collections.Counter(chr(key[0]) for key in known._short.entries)
    assert sum(kept.values()) == pod_cache.MAX_ENTRIES
    assert kept["c"] == pod_cache.MAX_ENTRIES // 4
    assert min(kept["a"], kept["b"]) >= pod_cache.MAX_ENTRIES // 3
