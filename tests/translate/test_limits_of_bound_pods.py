"""A bound pod that says very much cannot be refused: all that it asks for counts, and little else is read."""

from typing import Any, Final
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import aliases, names
from berth_operator.scheduling import holds
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import demands, pod_limits, pods, possible_devices, quantities
from support import builders
from translate import pod_requests

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
FOREIGN: Final[dict[str, Any]] = {"nodeName": "n1", "schedulerName": "default-scheduler"}
MANY: Final = 5000  # More than is read of a pod that can be refused.
NO_CARD: Final = {names.NVIDIA_GPU: 0, names.GPU_MEMORY: 0}
NOTHING: Final = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"ephemeral-storage": "1"}}
FIGURES: Final = [builders.asking(f"c{at}", {"cpu": f"{at}m"}) for at in range(MANY)]
# Specs of bound pods that say very much, and what that comes to.
MUCH: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing": (
        {"containers": [builders.container(resources=NOTHING)] * MANY},
        {"ephemeral-storage": MANY},
    ),
    "figures": ({"containers": FIGURES}, {facts.CPU: MANY * (MANY - 1) // 2}),
    "sidecars": (
        {
            "initContainers": [{"restartPolicy": "Always"} | one for one in FIGURES],
            "containers": FIGURES,
        },
        {facts.CPU: MANY * (MANY - 1)},
    ),
    "one by one": ({"initContainers": FIGURES}, {facts.CPU: MANY - 1}),
    "no cards": ({"containers": pod_requests.containers(MANY, NO_CARD)}, {}),
}


@pytest.mark.parametrize(("spec", "takes"), MUCH.values(), ids=MUCH.keys())
def test_a_bound_pod_counts_for_what_it_asks_however_much_it_says(
    spec: dict[str, Any], takes: dict[str, int]
) -> None:
    """It cannot be refused, and whoever writes very many words for nothing must not take a whole node."""
    found = pods.read_bound(builders.pod(**{"containers": [builders.container("main")]} | spec, **FOREIGN))

    assert dict(found.hold.amounts) == {facts.PODS: 1} | takes
    assert not found.hold.devices


HUGE_PAGES: Final = {f"hugepages-{at}": "1" for at in range(MANY)}
OWN: Final = builders.asking("own", {"cpu": 1, "memory": "1Gi"})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [OWN], "overhead": HUGE_PAGES}, id="in the overhead"),
        pytest.param({"containers": [OWN], "resources": {"requests": HUGE_PAGES}}, id="of the whole pod"),
        pytest.param(
            {
                "containers": [
                    *pod_requests.containers(1, {f"example.com/r{at:03}": 1 for at in range(500)}),
                    OWN,
                ]
            },
            id="in a container",
        ),
    ],
)
def test_of_a_bound_pod_only_so_many_names_are_kept(spec: dict[str, Any]) -> None:
    """What no node has is left out of a long list, cpu and memory never are."""
    amounts = dict(pods.read_bound(builders.pod(**spec, **FOREIGN)).hold.amounts)

    assert (amounts[facts.CPU], amounts[facts.MEMORY]) == (1000, 2**30)
    assert len(amounts) <= pod_limits.MAX_BOUND_RESOURCES + 3


def test_of_a_bound_pod_only_the_amounts_that_are_kept_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thirty thousand, while other pods wait."""
    read = mock.Mock(wraps=quantities.demand)
    monkeypatch.setattr(quantities, "demand", read)
    asked = [builders.asking(f"c{at}", {f"example.com/r{at}": 1}) for at in range(MANY)]

    pods.read_bound(builders.pod(containers=[OWN], initContainers=asked, **FOREIGN))

    assert read.call_count <= pod_limits.MAX_BOUND_RESOURCES + 3


@pytest.mark.parametrize(
    ("namespaces", "about"),
    [
        pytest.param([None, ["ml"]], [("ml",)], id="its own namespace"),
        pytest.param([["a"], ["b", "ml"]], [()], id="others"),
        pytest.param([None, ["a"]], [("ml",), ()], id="both"),
    ],
)
def test_of_very_many_terms_that_repel_it_is_kept_whether_they_are_about_others(
    namespaces: list[list[str] | None], about: list[tuple[str, ...]]
) -> None:
    """For its node alone: a pod that anybody put there keeps nobody away from other nodes by that."""
    terms = [
        {
            "topologyKey": f"k{at}",
            "labelSelector": {},
            **({"namespaces": some} if (some := namespaces[at % 2]) else {}),
        }
        for at in range(MANY)
    ]
    affinity = {"podAntiAffinity": {REQUIRED: terms}}

    hold = pods.read_bound(builders.pod(affinity=affinity, **FOREIGN)).hold

    assert [(one.selector.namespaces, one.topology_key) for one in hold.anti_affinity] == [
        (names_, "") for names_ in about
    ]


ONE_CARD: Final = {names.NVIDIA_GPU: 1}
# Containers of bound pods that ask for cards, and how many they have at one time.
MANY_CARDS: dict[str, tuple[dict[str, Any], int]] = {
    "one after the other": ({"initContainers": pod_requests.containers(MANY, ONE_CARD)}, 1),
    "together": ({"containers": pod_requests.containers(MANY, ONE_CARD)}, MANY),
    "sidecars": (
        {
            "initContainers": pod_requests.containers(MANY, ONE_CARD, restartPolicy="Always"),
            "containers": [builders.container("main", gpus=2)],
        },
        MANY + 2,
    ),
    "different in what is no device": (
        {
            "initContainers": [
                builders.asking(f"c{at}", {"cpu": at, names.NVIDIA_GPU: 1 + at % 3}) for at in range(MANY)
            ]
        },
        3,
    ),
    "too different": (
        {"initContainers": [builders.asking(f"c{at}", {names.NVIDIA_GPU: 1 + at}) for at in range(257)]},
        holds.ALL_CARDS,
    ),
}


@pytest.mark.parametrize(("spec", "cards"), MANY_CARDS.values(), ids=MANY_CARDS.keys())
def test_a_bound_pod_of_many_containers_keeps_back_what_they_have_at_one_time(
    spec: dict[str, Any], cards: int
) -> None:
    """However many there are, no card is kept back that they do not ask for, unless too many differ."""
    spec = {"containers": [builders.container("main")]} | spec

    assert pods.read_bound(builders.pod(**spec, **FOREIGN)).hold.withheld == cards


def test_a_bound_pod_of_many_amounts_of_devices_keeps_back_all_that_they_add_up_to() -> None:
    """Of each resource, too, which may be the only one that its node serves."""
    asked = [{"cpu": 1, names.NVIDIA_GPU: 1}, {"memory": 1, "nvidia.com/mig-1g.5gb": 1}] * 129
    asking = [builders.asking(f"c{at}", amounts) for at, amounts in enumerate(asked)]

    found = pods.read_bound(builders.pod(containers=asking, **FOREIGN))

    each = dict.fromkeys((names.NVIDIA_GPU, "nvidia.com/mig-1g.5gb"), 129)
    assert found.hold.withheld == len(asked)
    assert found.nameless is not None
    assert found.nameless.plugged == each


AMOUNTS: Final = st.integers(0, 300) | st.sampled_from(["0", "1", "1500m", "2k", "3Gi", "1e1", "x", "-1"])
ASKED: Final = st.dictionaries(
    st.sampled_from([*aliases.RESOURCES, names.NVIDIA_GPU, "nvidia.com/mig-1g.5gb", "cpu"]),
    AMOUNTS,
    max_size=3,
)


@pod_requests.PROPERTY
@hypothesis.given(asked=st.lists(st.tuples(ASKED, st.booleans()), max_size=8), most=st.integers(0, 30))
def test_what_is_not_read_of_many_amounts_counts_as_no_less_than_it_is(
    asked: list[tuple[dict[str, Any], bool]], most: int
) -> None:
    """A card that nobody keeps back could be given out twice; what is read counts as what it is."""
    sidecar = {"restartPolicy": "Always"}
    inits = [
        builders.asking(f"c{at}", amounts) | (sidecar if runs else {})
        for at, (amounts, runs) in enumerate(asked)
    ]
    spec = builders.pod(containers=[builders.container("main")], initContainers=inits, **FOREIGN).spec
    exact = possible_devices.max_cards_by_resource(possible_devices.serving(spec))
    served = {name for amounts, _ in asked for name in amounts if aliases.is_served(name)}

    with mock.patch.object(possible_devices, "MOST_DIFFERENT", most):
        found = possible_devices.max_cards_by_resource(possible_devices.serving_of_many(spec, served))

    assert found.keys() == exact.keys()
    assert all(found[name] >= cards for name, cards in exact.items())
    if most > len(asked) * 3:
        assert found == exact


def test_a_bound_pod_of_many_containers_keeps_what_its_record_names() -> None:
    """Its record counts however much the pod says beside it."""
    asking = [builders.container("main", gpus=1), *pod_requests.containers(4096)]
    record = builders.record("n1", main=[0])

    found = pods.read_bound(builders.pod(containers=asking, annotations=record, nodeName="n1"))

    assert ([share.minor for share in found.hold.shares], found.fault) == ([0], "")


def test_where_a_bound_pod_may_run_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is where it is: affinity and tolerations of a bound pod, however many, are not looked at."""
    monkeypatch.setattr(demands, "node_selection", None)

    assert pods.read_bound_request(builders.pod(gpus=1, tolerations=[{"key": "a"}], nodeName="n1")).sample
