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
    assert taints.tolerates(toleration, GPU) is covers


@pytest.mark.parametrize(
    ("value", "operator", "limit", "covers"),
    [
        pytest.param("5", "Lt", "6", True, id="less"),
        pytest.param("6", "Lt", "6", False, id="Lt of an equal number"),
        pytest.param("-7", "Lt", "-6", True, id="negative numbers"),
        pytest.param("10", "Gt", "9", True, id="greater as a number, not as a text"),
        pytest.param("6", "Gt", "6", False, id="Gt of an equal number"),
        pytest.param("0", "Gt", "-1", True, id="zero"),
        pytest.param("05", "Lt", "6", False, id="a leading zero in the taint"),
        pytest.param("5", "Lt", "06", False, id="a leading zero in the toleration"),
        pytest.param("", "Lt", "6", False, id="a taint without a value"),
        pytest.param("slow", "Gt", "6", False, id="a taint whose value is no number"),
        pytest.param("9223372036854775807", "Gt", "9223372036854775806", True, id="the largest number"),
        pytest.param("9223372036854775808", "Gt", "1", False, id="more than 64 bits hold"),
    ],
)
def test_a_toleration_of_numbers(value: str, operator: str, limit: str, covers: bool) -> None:  # noqa: FBT001  a column of the table
    """Lt and Gt cover a taint whose value is less or greater, where both are whole numbers."""
    taint = facts.Taint("gpu", value, "NoSchedule")

    assert taints.tolerates(facts.Toleration("gpu", operator, limit), taint) is covers
    assert not taints.tolerates(facts.Toleration("cpu", operator, limit), taint)


SECOND, THIRD = facts.Taint("a", "", "NoExecute"), facts.Taint("b", "", "NoSchedule")
OF_GPU, OF_CPU = facts.Toleration("gpu", "Exists"), facts.Toleration("cpu", "Exists")


@pytest.mark.parametrize(
    ("node_taints", "tolerations", "left"),
    [
        pytest.param([GPU], [], GPU, id="NoSchedule keeps a pod away"),
        pytest.param([SECOND], [], SECOND, id="NoExecute does"),
        pytest.param([facts.Taint("a", "", "PreferNoSchedule")], [], None, id="a preference does not"),
        pytest.param(
            [facts.Taint("a", "", "NoAdmit")], [], None, id="an effect of another scheduler does not"
        ),
        pytest.param(
            [GPU, SECOND, THIRD], [OF_GPU], SECOND, id="one toleration does not excuse other taints"
        ),
        pytest.param([GPU], [OF_CPU, OF_GPU], None, id="tolerations are alternatives"),
    ],
)
def test_which_taint_is_left(
    node_taints: list[facts.Taint], tolerations: list[facts.Toleration], left: facts.Taint | None
) -> None:
    """Only effects that forbid scheduling keep a pod away; the first taint that nothing covers is named."""
    node = builders.node(taints=tuple(node_taints))

    assert taints.untolerated(node, tuple(tolerations)) == left


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

    assert taints.accepts_despite_cordon(node, tolerations) is may
