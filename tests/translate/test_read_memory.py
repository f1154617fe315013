"""What is remembered of pods is what would be read of them."""

import collections
import itertools
from typing import Any, Final

import msgspec
import pytest

from berth_crds import aliases, names
from berth_operator.translate import pods, raw, read_memory

KIBIBYTE: Final = 1024


def pod(**changes: Any) -> raw.Pod:
    """Make a pod of one card, with some parts of its spec or metadata changed."""
    meta = {"name": "a", "uid": "u", "annotations": {}, **changes.pop("metadata", {})}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **changes}
    return msgspec.convert({"metadata": meta, "spec": spec}, raw.Pod)


def test_pods_of_one_workload_share_what_they_ask() -> None:
    """Pods that differ in nothing but their names are read once."""
    one, other = (pods.candidate(pod(metadata={"name": name, "uid": name})) for name in "ab")

    assert (one.name, other.name) == ("a", "b")
    assert one.request is other.request
    assert one.demand is other.demand


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"priority": 7},
        {"overhead": {"cpu": "1"}},
        {"metadata": {"annotations": {names.MODEL: "H100"}}},
        {"metadata": {"labels": {aliases.GENIUS_PRIORITY: "1"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_pod_asks_is_told_apart(change: dict[str, Any]) -> None:
    """A pod that asks anything else has a key of its own, waiting or bound."""
    assert read_memory.of_waiting(pod()) != read_memory.of_waiting(pod(**change))
    assert read_memory.of_bound(pod()) != read_memory.of_bound(pod(**change))


def test_where_a_pod_is_and_what_it_got_is_not_what_it_asked() -> None:
    """Bound pods of one workload share a key, whatever node and cards they have."""
    answer = {names.ALLOCATION: "x", names.TERM: "t/1", names.container_key("main", "uuids"): "GPU-1"}

    assert read_memory.of_bound(pod()) == read_memory.of_bound(
        pod(nodeName="n", metadata={"annotations": answer})
    )


@pytest.mark.parametrize(
    "row", [*aliases.ON_PODS, *aliases.OPTIONS], ids=lambda row: f"{row.where} {row.key}"
)
def test_whatever_other_projects_read_is_told_apart(row: aliases.Amount | aliases.Option) -> None:
    """Each label and annotation that may ask for something is a part of the key, waiting or bound."""
    change = {"labels" if row.where is aliases.Where.LABEL else "annotations": {row.key: "1"}}

    assert read_memory.of_waiting(pod()) != read_memory.of_waiting(pod(metadata=change))
    assert read_memory.of_bound(pod()) != read_memory.of_bound(pod(metadata=change))


def test_what_others_write_on_a_pod_is_not_what_it_asks() -> None:
    """Labels and annotations that are not read are no reason to read a pod anew."""
    change = {"labels": {"step": "7"}, "annotations": {"cni.example.com/ip": "10.0.0.7"}}

    assert read_memory.of_waiting(pod()) == read_memory.of_waiting(pod(metadata=change))
    assert read_memory.of_bound(pod()) == read_memory.of_bound(pod(metadata=change))


def test_a_misspelt_key_is_a_part_of_what_a_waiting_pod_asks() -> None:
    """What is refused because it is not known makes a difference, too."""
    key = {f"{names.GROUP}/modle": "H100"}

    for where in ("annotations", "labels"):
        assert read_memory.of_waiting(pod()) != read_memory.of_waiting(pod(metadata={where: key}))


def test_a_long_pod_is_read_once() -> None:
    """A pod with very much to say is remembered like any other, and not taken for one that says more."""
    count = itertools.count(1)
    known = read_memory.Recall(lambda _: next(count), lambda _: 0)
    long = b"x" * (read_memory.LONGEST_KEY + 1)

    assert [known(pod(), long), known(pod(), long), known(pod(), long + b"y")] == [1, 1, 2]


def test_little_is_kept_of_much() -> None:
    """Neither more kinds than are kept nor pods with very much to say take more memory than is set aside."""
    known = read_memory.Recall(lambda thing: thing.metadata.name, lambda _: KIBIBYTE)
    most = read_memory.MOST_BYTES // KIBIBYTE
    for at in range(read_memory.MOST_KNOWN + 1):
        known(pod(), str(at).encode())
    for at in range(most + 1):
        known(pod(), b"x" * read_memory.LONGEST_KEY + str(at).encode().zfill(9))

    assert len(known._usual.known) <= read_memory.MOST_KNOWN
    assert len(known._long.known) < most
    assert max(map(len, known._long.known)) <= 64, "digests"


def test_who_has_much_to_say_does_not_displace_others() -> None:
    """A namespace whose pods say more than there is room for has its own read anew, and nobody else's."""
    known = read_memory.Recall(lambda thing: thing.metadata.name, lambda _: 9 * KIBIBYTE)
    for name in ("a", "b", "c"):
        known(pod(metadata={"name": name, "namespace": name}), name.encode())
    for _ in range(2):
        for at in range(read_memory.MOST_BYTES // KIBIBYTE):
            known(pod(metadata={"namespace": "loud"}), str(at).encode())

    assert {b"a", b"b", b"c"} <= known._usual.known.keys()
    assert len(known._usual.known) > read_memory.MOST_BYTES // (10 * KIBIBYTE), "all room is used"


def test_namespaces_share_what_room_there_is() -> None:
    """Whoever says less than its share keeps all of it, and whoever says more has that share at least."""
    known = read_memory.Recall(lambda thing: thing.metadata.name, lambda _: 0)
    for _ in range(2):
        for at in range(read_memory.MOST_KNOWN):
            for name in ("a", "b"):
                known(pod(metadata={"namespace": name}), f"{name}{at}".encode())
        for at in range(read_memory.MOST_KNOWN // 4):
            known(pod(metadata={"namespace": "c"}), f"c{at}".encode())

    kept = collections.Counter(chr(key[0]) for key in known._usual.known)
    assert sum(kept.values()) == read_memory.MOST_KNOWN
    assert kept["c"] == read_memory.MOST_KNOWN // 4
    assert min(kept["a"], kept["b"]) >= read_memory.MOST_KNOWN // 3


def test_long_pods_do_not_displace_the_usual_ones() -> None:
    """However many pods have much to say, those of the usual length are still known."""
    known = read_memory.Recall(lambda thing: thing.metadata.name, lambda _: KIBIBYTE)
    known(pod(), b"usual")
    for at in range(read_memory.MOST_BYTES // KIBIBYTE):
        known(pod(), b"x" * read_memory.LONGEST_KEY + str(at).encode().zfill(9))

    assert b"usual" in known._usual.known
