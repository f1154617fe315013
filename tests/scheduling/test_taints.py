"""Taints and tolerations say what Kubernetes says."""

import pytest

from berth_operator.scheduling.nodes import facts, taints
from support import builders

GPU = facts.Taint("gpu", "yes", "NoSchedule")
CORDON = facts.UNSCHEDULABLE_TAINT


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(facts.Toleration("gpu", "Equal", "yes"), True, id="same key and value"),
        pytest.param(facts.Toleration("gpu", "", "yes"), True, id="no operator means Equal"),
        pytest.param(facts.Toleration("gpu", "Equal", "no"), False, id="another value"),
        pytest.param(facts.Toleration("gpu"), False, id="an empty value is a value"),
        pytest.param(facts.Toleration("cpu", "Equal", "yes"), False, id="another key"),
        pytest.param(facts.Toleration("gpu", "Exists"), True, id="Exists asks for no value"),
        pytest.param(facts.Toleration("cpu", "Exists"), False, id="Exists of another key"),
        pytest.param(facts.Toleration("", "Exists"), True, id="Exists without a key covers all"),
        pytest.param(facts.Toleration("", "Equal", "yes"), False, id="Equal without a key covers nothing"),
        pytest.param(facts.Toleration("gpu", "Exists", effect="NoSchedule"), True, id="same effect"),
        pytest.param(facts.Toleration("gpu", "Exists", effect="NoExecute"), False, id="another effect"),
        pytest.param(
            facts.Toleration("", "Exists", effect="NoExecute"), False, id="all keys, another effect"
        ),
        pytest.param(facts.Toleration("gpu", "Like", "yes"), False, id="an operator we do not know"),
        pytest.param(facts.Toleration("GPU", "Exists"), False, id="keys have a case"),
    ],
)
def test_toleration(toleration: facts.Toleration, covers: bool) -> None:  # noqa: FBT001  a column of the table
    """A toleration covers a taint exactly when Kubernetes says so."""
    found = taints.tolerates(toleration, GPU)

    assert found is covers


@pytest.mark.parametrize(
    ("effect", "keeps_away"),
    [
        pytest.param("NoSchedule", True, id="NoSchedule"),
        pytest.param("NoExecute", True, id="NoExecute"),
        pytest.param("PreferNoSchedule", False, id="a preference only"),
        pytest.param("NoAdmit", False, id="an effect of another scheduler"),
    ],
)
def test_effects(effect: str, keeps_away: bool) -> None:  # noqa: FBT001  a column of the table
    """Only the effects that forbid scheduling keep a pod away."""
    node = builders.node(taints=(facts.Taint("gpu", "", effect),))

    found = taints.untolerated(node, ())

    assert (found is not None) is keeps_away


def test_each_taint_must_be_tolerated() -> None:
    """One toleration does not excuse the other taints; the first one left is named."""
    second, third = facts.Taint("a", "", "NoExecute"), facts.Taint("b", "", "NoSchedule")
    node = builders.node(taints=(GPU, second, third))

    found = taints.untolerated(node, (facts.Toleration("gpu", "Exists"),))

    assert found == second


def test_one_taint_may_be_covered_by_any_toleration() -> None:
    """Tolerations are alternatives."""
    node = builders.node(taints=(GPU,))
    useless, useful = facts.Toleration("cpu", "Exists"), facts.Toleration("gpu", "Exists")

    found = taints.untolerated(node, (useless, useful))

    assert found is None


@pytest.mark.parametrize(
    ("unschedulable", "tolerations", "may"),
    [
        pytest.param(False, (), True, id="a node in service"),
        pytest.param(True, (), False, id="a cordoned node"),
        pytest.param(True, (facts.Toleration(CORDON, "Exists"),), True, id="cordoned and tolerated"),
        pytest.param(True, (facts.Toleration("", "Exists"),), True, id="cordoned and all tolerated"),
        pytest.param(
            True,
            (facts.Toleration(CORDON, "Exists", effect="NoExecute"),),
            False,
            id="only its eviction tolerated",
        ),
        pytest.param(True, (facts.Toleration("gpu", "Exists"),), False, id="another taint tolerated"),
    ],
)
def test_cordon(unschedulable: bool, tolerations: tuple[facts.Toleration, ...], may: bool) -> None:  # noqa: FBT001  columns of the table
    """A cordoned node takes only pods that tolerate being there."""
    node = builders.node(unschedulable=unschedulable)

    found = taints.may_schedule(node, tolerations)

    assert found is may
