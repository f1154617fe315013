"""Whoever asks for a model that is lacking is told which models there are."""

import pathlib
from typing import Any, Final

import pytest

from berth_operator.scheduling import explain, known_models, queued_pods
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import scenes
from support import builders

LACKING: Final = [Count(Reason.MODEL_MISMATCH, "", 2)]
WANTED: Final = scenes.cards(models=frozenset({"h100"}))
HINT: Final = "; berth.dev/model needs the full model name; use berth.dev/model-pattern for a partial match"


def of(*models: str) -> Inventory:
    """Make a node for each of these models, which may be the same."""
    names = [f"n{at:03}" for at in range(len(models))]
    cards = zip(names, models, strict=True)
    return builders.inventory(
        *map(builders.node, names),
        *(builders.device(name, [builders.card(at=name, model=model)]) for name, model in cards),
    )


def brief(made: Inventory, pod: queued_pods.PodInfo = WANTED) -> str:
    """Return what is said without a close look."""
    return explain.brief(LACKING, pod, known_models.instead(LACKING, made))


@pytest.mark.parametrize(
    ("models", "there"),
    [
        pytest.param(["NVIDIA A100-SXM4-80GB"], "there is A100-SXM4-80GB", id="one"),
        pytest.param(
            ["NVIDIA L4", "Tesla T4", "T4"], "there are Tesla-T4 and L4", id="the most frequent first"
        ),
        pytest.param(
            ["NVIDIA L4", "Tesla T4"], "there are L4 and Tesla-T4", id="by name where they are equal"
        ),
        pytest.param(
            ["Odd  Card", "Even Card"], "there are 'Even-Card' and 'Odd-Card'", id="not in the catalog"
        ),
        pytest.param(
            ["T4). Node v1 is broken"], "there is 'T4).-Node-v1-is-broken'", id="a made-up sentence"
        ),
        pytest.param(["T4\u2800x"], r"there is 'T4\u2800x'", id="a letter that is not seen"),
        pytest.param(["x" * 99], f"there is '{'x' * 45}...'", id="a long name"),
        pytest.param(list("abcde"), "there are 'a', 'b', 'c', 'd' and 1 other", id="one more than is named"),
        pytest.param(
            [*"aabbccdd", *map(str, range(96))], "there are 'a', 'b', 'c', 'd' and 96 others", id="very many"
        ),
    ],
)
def test_the_most_frequent_models_are_named(models: list[str], there: str) -> None:
    """A few of them, as kubectl shows them, in the short sentence as in the one after a close look."""
    made = of(*models)

    assert f"no card of model h100 ({there})" in brief(made)
    assert f"no card of model h100 ({there})" in scenes.said(made, WANTED)


@pytest.mark.parametrize(
    "condition",
    [
        {"models": frozenset({"h100"})},
        {"pattern": "^h"},
        {"avoid_models": frozenset({"T4"})},
        {"avoid_pattern": "t4"},
    ],
    ids=lambda condition: next(iter(condition)),
)
def test_every_condition_on_models_names_them(condition: dict[str, Any]) -> None:
    """Whichever way the pod chooses its model, of whole cards or of a part."""
    made = of("Tesla T4")

    for asked in (scenes.cards(**condition), scenes.part(**condition)):
        assert "(there is Tesla-T4)" in scenes.said(made, asked)


def test_a_node_that_is_not_looked_at_closely_names_them_too() -> None:
    """What is listed of single nodes says so where it says nothing of single cards."""
    made = of(*["Tesla T4"] * 40)

    said = {one.detail for one in explain.refusals(scenes.told(made, WANTED), WANTED) if not one.device}

    assert said == {"has no card of model h100 (there is Tesla-T4)"}


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        pytest.param("a100", HINT, id="a family"),
        pytest.param("nvidia a100", HINT, id="with its maker"),
        pytest.param("t4", "", id="the short name of a model"),
        pytest.param("a10", "", id="a model whose name others begin with"),
        pytest.param("h100", "", id="no part of a name"),
    ],
)
def test_a_part_of_a_name_is_told_from_the_whole(wanted: str, hint: str) -> None:
    """Who asks for a family reads how, beside the models of it that there are."""
    made, pod = of("NVIDIA A100-SXM4-80GB"), scenes.cards(models=frozenset({wanted}))

    for said in (brief(made, pod), scenes.said(made, pod)):
        assert f"(there is A100-SXM4-80GB{hint})" in said


def test_models_are_told_as_they_were_written() -> None:
    """Case does not matter where they compare, but people look for what they wrote."""
    models, avoided = frozenset({"a100", "t4", "x"}), frozenset({"l4"})
    pod = scenes.cards(2, models=models, avoid_models=avoided, spelt=("A100", "L4", "T4"))

    said = brief(of("Odd Card"), pod)

    assert "have fewer than 2 cards of model A100, T4 or x and other than L4 (there" in said


def test_a_model_that_is_gone_is_not_named() -> None:
    """What a node no longer publishes counts no more."""
    made = of("Tesla T4", "NVIDIA L4")
    made.drop_device("n000")

    assert "(there is L4)" in brief(made)


def test_models_are_named_only_where_one_is_lacking() -> None:
    """A pod that waits for another reason is spared them."""
    made = of("Tesla T4")

    assert known_models.instead([Count(Reason.FULL, "", 1)], made) == known_models.UNTOLD
    assert "there" not in scenes.said(made, scenes.cards(2, models=frozenset({"T4"})))


def test_nothing_is_named_where_there_is_nothing() -> None:
    """Without any card there is no model."""
    assert brief(builders.inventory(builders.node())).endswith("of model h100")


def test_the_words_of_an_agent_are_one_short_line() -> None:
    """A name that is very long is cut, and the sentence is what the server takes."""
    said = brief(of(*(f"{at}{'x' * 5000}" for at in range(5))))

    assert len(said) < 500
    assert said.endswith("and 1 other)")


def test_the_readme_shows_the_sentence() -> None:
    """What a user is told there is what the operator says."""
    readme = (pathlib.Path(__file__).parents[3] / "README.md").read_text()

    pod = scenes.cards(models=frozenset({"h100"}), spelt=("H100",))
    said = brief(of("NVIDIA A100-SXM4-80GB", "Tesla T4"), pod)

    assert f"`{said.removeprefix('0/2 nodes are available: ')}`" in " ".join(readme.split())
