"""The policy's further names of models, in patterns too."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import explain, policy_rules
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import builders

NAMED: Final = Policy(models=(("v-hundred", "NVIDIA A100-SXM4-80GB"), ("small", "Tesla T4")))
MODELS: Final = {"n1": "Tesla T4", "n2": "NVIDIA A100-SXM4-80GB", "n3": "NVIDIA H200"}


def placed(**conditions: Any) -> list[str]:
    """Return the nodes on which a pod with these conditions would fit, each with cards of one model."""
    found = []
    for node, model in MODELS.items():
        inventory = builders.inventory(
            builders.node(node), builders.device(node, [builders.card(0, at=node, model=model)])
        )
        pod = builders.pod_info(request=builders.request(1, conditions=requests.Conditions(**conditions)))
        asked = policy_rules.apply(NAMED, pod)
        if Search(inventory).place(asked.request, asked.demand, policy=NAMED) is not None:
            found.append(node)
    return found


@pytest.mark.parametrize(
    ("conditions", "nodes"),
    [
        pytest.param({"models": frozenset({"v-hundred"})}, ["n2"], id="a model"),
        pytest.param({"pattern": "v-hundred"}, ["n2"], id="a pattern that is a name"),
        pytest.param({"pattern": "V-Hundred"}, ["n2"], id="a name in another case"),
        pytest.param({"pattern": r"v\-hundred"}, ["n2"], id="a name that was escaped"),
        pytest.param({"pattern": "v-hundred|T4"}, ["n1"], id="a name in a larger pattern is none"),
        pytest.param({"pattern": "v-hun"}, [], id="a part of a name is none"),
        pytest.param({"avoid_pattern": "small"}, ["n2", "n3"], id="a pattern to avoid that is a name"),
        pytest.param(
            {"avoid_pattern": "small", "avoid_models": frozenset({"h200"})},
            ["n2"],
            id="a name to avoid beside a model to avoid",
        ),
        pytest.param(
            {"pattern": "small", "models": frozenset({"t4", "h200"})}, ["n1"], id="a name beside models"
        ),
        pytest.param(
            {"pattern": "small", "models": frozenset({"h200"})}, [], id="a name beside another model"
        ),
    ],
)
def test_a_pattern_that_is_a_name_of_the_policy_asks_for_that_model(
    conditions: dict[str, Any], nodes: list[str]
) -> None:
    """Names compare as those of models do; all other patterns stay patterns."""
    assert placed(**conditions) == nodes


def test_a_pod_that_waits_for_a_named_model_reads_what_it_wrote() -> None:
    """And which models there are instead."""
    inventory = builders.inventory(builders.node(), builders.device("n1", [builders.card(0, model="T4")]))
    conditions = requests.Conditions(pattern="V-hundred")
    pod = builders.pod_info(request=builders.request(1, conditions=conditions))

    found = explain.explain(Search(inventory), pod, policy=NAMED)

    sentence = explain.sentence(found, pod)
    assert "whose model matches V-hundred" in sentence
    assert "Tesla-T4" in sentence
