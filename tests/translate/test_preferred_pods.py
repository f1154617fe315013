"""What pods prefer of other pods, as the core knows it: within limits, and never a reason to refuse."""

from typing import Any, Final

import msgspec
import pytest

from berth_operator.engine import pod_memory
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.nodes.facts import LabelExpression, PodSelector, PodTerm, WeightedPodTerm
from berth_operator.translate import long_pods, memory_estimates, pod_cache, pod_limits, pods, preferred_pods
from scheduling.pod_clusters import (
    PREFERRED,
    REQUIRED,
    ZONE,
    Body,
    hold,
    pod,
    pod_info,
    read,
    selecting,
    spread,
    term,
)

LONG: Final = "x" * 9000


def wish(weight: int = 1, **fields: Any) -> Body:
    """Write a preferred term."""
    return {"weight": weight, "podAffinityTerm": term(**fields)}


def near(*terms: Body) -> Body:
    """Write a preferred pod affinity."""
    return {"podAffinity": {PREFERRED: list(terms)}}


def far(*terms: Body) -> Body:
    """Write a preferred pod anti-affinity."""
    return {"podAntiAffinity": {PREFERRED: list(terms)}}


def soft(**fields: Any) -> Body:
    """Write a spread constraint that may be missed."""
    return spread(whenUnsatisfiable="ScheduleAnyway", **fields)


def preferred(**spec: Any) -> facts.PreferredPods | None:
    """Return what a pod with this spec prefers of other pods."""
    return pod_info(pod(labels={"rev": "1"}, **spec)).demand.preferred_pods


WEB: Final = PodTerm(PodSelector(("ml",), (LabelExpression("app", "In", ("web",)),)), ZONE)


def test_terms_and_constraints_as_the_core_knows_them() -> None:
    """Anti-affinity has weights below zero, and keys that are listed have the pod's own values."""
    found = preferred(
        affinity=near(wish(7)) | far(wish(9), wish(1, selector={}, mismatchLabelKeys=["rev"])),
        topologySpreadConstraints=[soft(skew=3, matchLabelKeys=["rev"], selector={}), spread()],
    )

    assert found is not None
    other = PodTerm(PodSelector(("ml",), (LabelExpression("rev", "NotIn", ("1",)),)), ZONE)
    assert found.terms == (WeightedPodTerm(7, WEB), WeightedPodTerm(-9, WEB), WeightedPodTerm(-1, other))
    [constraint] = found.spread
    assert (constraint.max_skew, constraint.selector.expressions) == (
        3,
        (LabelExpression("rev", "In", ("1",)),),
    )


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": near(wish(0))}, id="a term without weight"),
        pytest.param({"affinity": near(wish(101))}, id="a term of more weight than may be"),
        pytest.param({"affinity": far(wish(-1))}, id="a weight below zero"),
        pytest.param({"affinity": near({"weight": 1})}, id="a weight without a term"),
        pytest.param({"affinity": near(wish(key=""))}, id="a term without a key"),
        pytest.param({"topologySpreadConstraints": [soft(key="")]}, id="a spread over nothing"),
        pytest.param({"topologySpreadConstraints": [soft(skew=0)]}, id="no skew"),
        pytest.param({"topologySpreadConstraints": [soft(skew=2**31)]}, id="more skew than may be"),
        pytest.param({"topologySpreadConstraints": [spread(whenUnsatisfiable="Maybe")]}, id="another word"),
        pytest.param({"affinity": near(wish(selector=selecting(app=LONG * 4)))}, id="very many characters"),
    ],
)
def test_what_nobody_can_mean_is_passed_over(spec: Body) -> None:
    """The pod is as one that prefers nothing, and is not refused."""
    assert preferred(**spec) is None


VALUES: Final = [{"key": "app", "operator": "In", "values": [f"v{at}" for at in range(600)]}]
PAIRS: Final = {f"key{at}": "" for at in range(100)}


@pytest.mark.parametrize(
    ("one", "most"),
    [
        pytest.param(wish(), pod_limits.MAX_POD_TERMS, id="terms"),
        pytest.param(wish(selector={"matchLabels": PAIRS}), 2, id="expressions"),
        pytest.param(wish(selector={"matchExpressions": VALUES}), 1, id="values"),
        pytest.param(wish(namespaces=[f"n{at}" for at in range(400)]), 2, id="namespaces"),
        pytest.param(wish(selector=selecting(app=LONG)), 3, id="characters"),
        pytest.param(wish(namespaceSelector=selecting(team=LONG)), 3, id="characters about namespaces"),
        pytest.param(wish(key=LONG), 3, id="characters of keys"),
    ],
)
def test_preferences_up_to_the_limits(one: Body, most: int) -> None:
    """What follows the first that is beyond the limits of required terms is passed over, spread as well."""
    found = preferred(affinity=near(*[one] * 100), topologySpreadConstraints=[soft()])
    alone = preferred(affinity=near(*[one] * (most - 1)), topologySpreadConstraints=[soft()])

    assert found is not None
    assert (len(found.terms), len(found.spread)) == (most, 0)
    assert alone is not None
    assert (len(alone.terms), len(alone.spread)) == (most - 1, 1)


def test_preferences_have_the_room_that_requirements_leave() -> None:
    """Terms and constraints of both kinds count together; what they require is never passed over."""
    required = [term()] * (pod_limits.MAX_POD_TERMS - 3)
    near_ = near(*[wish()] * 100)["podAffinity"] | {REQUIRED: required}

    found = preferred(affinity={"podAffinity": near_}, topologySpreadConstraints=[spread()])

    assert found is not None
    assert len(found.terms) == 2


def test_spread_up_to_the_limits() -> None:
    """Soft constraints are counted together with the terms."""
    long_one = soft(selector=selecting(app=LONG))

    found = preferred(affinity=far(wish()), topologySpreadConstraints=[long_one] * 9)

    assert found is not None
    assert (len(found.terms), len(found.spread)) == (1, 3)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": near(wish(matchLabelKeys=["rev"]))}, id="near, the same"),
        pytest.param({"affinity": far(wish(mismatchLabelKeys=["rev"]))}, id="away, another"),
        pytest.param({"topologySpreadConstraints": [soft(matchLabelKeys=["rev"])]}, id="spread"),
    ],
)
def test_pods_whose_labels_count_are_read_each(spec: Body) -> None:
    """Pods that differ in a label that a preference lists do not share what was read; others do."""
    keys = [pod_cache.waiting_key(read(pod(labels={"rev": rev}, **spec))) for rev in "12"]
    plain = [pod_cache.waiting_key(read(pod(labels={"rev": rev}, affinity=near(wish())))) for rev in "12"]

    assert keys[0] != keys[1]
    assert plain[0] == plain[1]


def test_preferences_are_a_part_of_what_a_pod_takes_of_memory() -> None:
    """Of a pod with long preferences more is counted."""
    wishes = (preferred(affinity=near(one)) for one in (wish(), wish(selector=selecting(app=LONG))))

    short, long_ = (
        memory_estimates.of_request(requests.NO_DEVICES, facts.NodeDemand(preferred_pods=one))
        for one in wishes
    )

    assert long_ - short > len(LONG) - 100


def test_of_a_long_pod_the_same_is_read() -> None:
    """Whether its lists are searched as text first or not; one that is very long is passed over."""
    spec: Body = {"affinity": near(wish()) | far(wish(2)), "topologySpreadConstraints": [soft()]}
    body = pod(**spec)
    many = pod(affinity=near(*[wish()] * 5000), topologySpreadConstraints=[soft()] * 5000)

    found = long_pods.Pod.of_long(msgspec.json.encode(body))
    of_many = long_pods.Pod.of_long(msgspec.json.encode(many))

    assert preferred_pods.of_pod(found) is not None
    assert preferred_pods.of_pod(found) == preferred_pods.of_pod(read(body))
    assert preferred_pods.of_pod(of_many) is None
    assert not pods.pod_info(of_many).faults


# ---------------------------------------------------------------- pods on nodes


def weighs(**spec: Any) -> tuple[WeightedPodTerm, ...]:
    """Return how a pod on a node weighs pods that come later."""
    return hold(pod(at="n1", labels={"rev": "1"}, **spec)).weighted_terms


def test_how_a_pod_on_a_node_weighs_others() -> None:
    """By what it prefers, and by 1 for what it requires to be near; spread says nothing of others."""
    preferred_ = near(wish(7)) | far(wish(9))
    both = {"podAffinity": preferred_["podAffinity"] | {REQUIRED: [term(), term()]}}

    assert weighs(affinity=preferred_) == (WeightedPodTerm(7, WEB), WeightedPodTerm(-9, WEB))
    assert weighs(affinity=both) == (*[WeightedPodTerm(1, WEB)] * 2, WeightedPodTerm(7, WEB))
    assert weighs(topologySpreadConstraints=[soft()]) == ()
    assert weighs() == ()


def test_what_a_pod_on_a_node_prefers_beyond_the_limits() -> None:
    """It cannot be refused: what it prefers counts up to the limits, and of too many required terms none."""
    many = {REQUIRED: [term()] * (pod_limits.MAX_POD_TERMS + 1)}

    assert len(weighs(affinity=near(*[wish()] * 100))) == pod_limits.MAX_POD_TERMS
    assert weighs(affinity={"podAffinity": many | {PREFERRED: [wish(5)]}}) == (WeightedPodTerm(5, WEB),)
    assert hold(pod(at="n1", affinity={"podAffinity": many})).anti_affinity == ()


def test_its_terms_are_charged_to_its_namespace() -> None:
    """As its labels are; where there is no room for the labels, its terms are not kept either."""
    short, long_ = (
        pods.read_bound(read(pod(at="n1", affinity=near(one))))
        for one in (wish(), wish(selector=selecting(app=LONG)))
    )

    assert long_.byte_size - short.byte_size > len(LONG) - 100
    assert pod_memory.bare_hold(long_.hold).weighted_terms == long_.hold.weighted_terms
    assert pod_memory.trimmed(long_.hold, None, admitted=True)[0].weighted_terms == ()


def test_of_terms_for_which_there_is_no_room_it_is_kept_whom_they_may_be_about() -> None:
    """On its own node, all pods of its namespace; of all namespaces where a term is about others."""
    own = [term(selector=selecting(app=f"{LONG}{number}")) for number in range(3)]
    other = term(namespaceSelector={}, selector=selecting(app=LONG))
    found = [
        pod_memory.trimmed(hold(pod(at="n1", affinity=affinity)), None, admitted=True)[0].anti_affinity
        for affinity in ({"podAntiAffinity": {REQUIRED: terms}} for terms in (own, [*own, other]))
    ]

    mine, all_ = PodTerm(PodSelector(("ml",), ()), ""), PodTerm(PodSelector((), (), ()), "")
    assert found == [(mine,), (mine, all_)]
