"""The policy says whose records of cards are believed, none above what its pod asks for (I8, I9)."""

import json
from typing import Any, Final

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from berth_crds import aliases, names, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import policy_sink
from berth_operator.scheduling import holds
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import pods, raw
from support import builders, ledgers, random_clusters, thorough

GPU: Final = "koordinator.sh/gpu"
KOORDINATOR: Final = names.KOORDINATOR_SCHEDULER
NOBODY: Final = Policy(pod_records_from=frozenset())
OTHER: Final = Policy(pod_records_from=frozenset({"other"}))
# What is kept back for a pod with the card 2: that card, or any one.
Kept = tuple[frozenset[str | int], int]
NAMED: Final[Kept] = (frozenset({2}), 0)
COUNTED: Final[Kept] = (frozenset(), 1)


def record(*minors: object) -> str:
    """Return Koordinator's record of cards."""
    return json.dumps({"gpu": [{"minor": minor} for minor in minors]})


def pod(written: str | None, *, asks: int = 1, **fields: Any) -> raw.Pod:
    """Return a pod that Koordinator has bound, and that asks for so many cards, with this record."""
    usual: dict[str, Any] = {
        "nodeName": "n1",
        "schedulerName": KOORDINATOR,
        "phase": "Running",
        "containers": [builders.asking("main", {GPU: 100 * asks} if asks else {})],
        "annotations": {} if written is None else {aliases.KOORDINATOR_RECORD: written},
    }
    return builders.admitted(builders.pod("p", **usual | fields))


def knows_of_none() -> wire.GpuPod:
    """Return the GpuPod of a pod to which the kubelet, which knows nothing of Koordinator, gave no card."""
    status = wire.GpuPodStatus(phase="Running", granted=(wire.Grant("main", (), "podresources"),))
    return msgspec.structs.replace(builders.gpupod(), status=status)


def ledger_of(*resources: str, kubelet_read: bool = True) -> Ledger:
    """Return a ledger of a node with four cards that lists these resources."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n1", extra=dict.fromkeys(resources, 400)))
    ledger.device_seen(builders.device("n1", kubelet_read=kubelet_read))
    return ledger


def kept(ledger: Ledger) -> Kept:
    """Return which cards are kept back for the pod by name, and how many without one."""
    hold = ledger.inventory.hold("uid-p")
    assert hold is not None
    return hold.marked, hold.withheld


def test_a_change_of_the_policy_counts_at_once() -> None:
    """For pods that run, too: cards that may be in use are kept back in each state."""
    ledger, found = ledger_of(GPU), []
    ledgers.gpupod_seen(ledger, knows_of_none())
    ledgers.pod_seen(ledger, pod(record(2)))

    for policy in (Policy(), NOBODY, OTHER, Policy()):
        ledger.policy_seen(policy)
        found.append(kept(ledger))

    assert found == [NAMED, COUNTED, COUNTED, NAMED]


@pytest.mark.parametrize("policy", [Policy(), NOBODY, OTHER], ids=["as by default", "nobody", "another"])
def test_a_new_leader_knows_the_same_whatever_it_reads_first(policy: Policy) -> None:
    """The policy may come before the pod or after it."""
    first, last = ledger_of(GPU), ledger_of(GPU)
    for ledger, late in ((first, False), (last, True)):
        ledgers.in_turn(
            lambda ledger=ledger: ledger.policy_seen(policy),  # type: ignore[misc]
            lambda ledger=ledger: ledgers.pod_seen(ledger, pod(record(2))),  # type: ignore[misc]
            late=late,
        )

    assert ledgers.contents(first) == ledgers.contents(last)
    assert ledgers.differences(first, last) == ()


def test_only_the_policy_in_force_says_whose_records_are_believed() -> None:
    """Neither another policy, nor one that cannot be read; without the policy the default holds."""
    ledger, found = ledger_of(GPU), []
    sink = policy_sink.PolicySink(ledger)
    ledgers.gpupod_seen(ledger, knows_of_none())
    ledgers.pod_seen(ledger, pod(record(2), schedulerName="other"))

    for name, believed in (("second", "other"), ("default", "a b"), ("default", "other")):
        meta, spec = wire.Meta(name), wire.PolicySpec(pod_records_from=(believed,))
        sink.upserted(wire.PlacementPolicy(meta, spec))
        found.append(kept(ledger)[0])
    sink.deleted(wire.Meta("default"))

    assert [*found, kept(ledger)[0]] == [set(), set(), {2}, set()]


def test_a_pod_that_was_taken_over_keeps_the_name_of_its_scheduler() -> None:
    """Berth answers to that name now, but who wrote the record has not changed."""
    ledger, found = ledger_of(), []
    both = {KOORDINATOR, names.SCHEDULER_NAME}
    ledgers.pod_seen(ledger, pods.adopt(pod(record(2)), both))

    for policy in (Policy(), NOBODY):
        ledger.policy_seen(policy)
        found.append(kept(ledger))

    assert found == [NAMED, COUNTED]


# ---------------------------------------------------------------- forged records

FORGED: Final = st.one_of(
    st.lists(st.integers(0, 3), max_size=4, unique=True).map(lambda minors: record(*minors)),
    st.lists(st.integers(-1, 5), max_size=5).map(lambda minors: record(*minors)),
    st.lists(st.one_of(st.text(max_size=2), st.booleans(), st.none()), max_size=3).map(
        lambda odd: record(*odd)
    ),
    st.just(record(*range(65))),
    st.sampled_from(["", "{}", "[]", "null", '{"gpu": null}', '{"rdma": [{"minor": 0}]}']),
    st.text(max_size=20),
)
SAID: Final[st.SearchStrategy[wire.GpuPod | None]] = st.one_of(
    st.none(),
    st.builds(knows_of_none),
    st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(
        lambda minors: builders.gpupod(main=minors)
    ),
)
ADOPTED: Final = {"someone-else": (), "taken-over": ("taken-over", names.SCHEDULER_NAME)}


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(300))
@hypothesis.given(
    forged=FORGED,
    asks=st.integers(0, 3),
    scheduler=st.sampled_from(sorted(ADOPTED)),
    said=SAID,
    listed=st.booleans(),
    kubelet_read=st.booleans(),
    phase=st.sampled_from(["Pending", "Running"]),
    believed=st.booleans(),
)
def test_a_record_claims_no_more_than_its_pod_asks_for_and_frees_nothing_unless_believed(
    forged: str,
    asks: int,
    scheduler: str,
    said: wire.GpuPod | None,
    phase: str,
    *,
    believed: bool,
    **of: bool,
) -> None:
    """Whatever is written, and whatever else is known; one of an unnamed scheduler names no card at all."""
    policy = Policy(pod_records_from=frozenset({scheduler} if believed else ()))
    without, with_it = (
        _hold(pod(text, asks=asks, schedulerName=scheduler, phase=phase), said, policy, **of)
        for text in (None, forged)
    )

    assert with_it.shares == without.shares
    assert without.marked == frozenset()
    assert len(with_it.marked) <= asks
    assert with_it.withheld <= max(asks, without.withheld)
    if not believed:
        assert not with_it.marked
        assert with_it.withheld >= without.withheld


def _hold(
    of_pod: raw.Pod, said: wire.GpuPod | None, policy: Policy, *, listed: bool, kubelet_read: bool
) -> holds.Hold:
    """Return what a pod holds on a node of which this is known."""
    ledger = ledger_of(*[GPU] * listed, kubelet_read=kubelet_read)
    ledger.policy_seen(policy)
    if said is not None:
        ledgers.gpupod_seen(ledger, said)
    ledgers.pod_seen(ledger, pods.adopt(of_pod, ADOPTED[of_pod.spec.scheduler_name]))
    hold = ledger.inventory.hold("uid-p")
    assert hold is not None
    return hold
