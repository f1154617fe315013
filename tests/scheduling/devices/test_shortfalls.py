"""Why not: the node's reason, what is wrong with each device, and whether it could ever fit."""

import dataclasses
from typing import Any

import hypothesis
import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    allocator,
    device_view,
    finder,
    packing,
    requests,
    shortfalls,
    verdicts,
)
from scheduling.devices import brute, build, generate

GIB = build.GIB
PART = requests.Gpus(1, core=50, memory=6 * GIB)


def refusal(view: device_view.View, *asks: requests.Ask, **fields: Any) -> allocator.Shortfall:
    """Place a pod in vain."""
    return build.refused(allocator.place(view, build.request(*asks, **fields)))


# ---------------------------------------------------------------- one card


@pytest.mark.parametrize(
    ("usage", "ask", "why"),
    [
        (None, requests.cards(1), Reason.IN_USE),
        (None, PART, Reason.IN_USE),
        (device_view.Usage(20, GIB, 1), requests.cards(1), Reason.PARTLY_USED),
        (device_view.Usage(60, GIB, 2), PART, Reason.FULL),
        (device_view.Usage(20, 3 * GIB, 1), PART, Reason.FULL),
    ],
)
def test_a_used_card_says_how_it_is_used(
    usage: device_view.Usage | None, ask: requests.Ask, why: Reason
) -> None:
    """A card that one pod has alone, one that several share, and one with too little left differ."""
    view = build.view(build.device(build.gpu(0)), {0: usage})

    verdict = allocator.judge(view, view.device.cards[0], ask)

    assert verdict is not None
    assert (verdict.reason, verdict.never) == (why, False)


def test_a_verdict_has_the_figures_for_a_sentence() -> None:
    """It tells what was wanted, what is left and what there is, in percent and bytes."""
    view = build.view(build.device(build.gpu(2)), {2: device_view.Usage(30, 2 * GIB, 1)})

    verdict = allocator.judge(view, view.device.cards[0], requests.Gpus(1, core=20, memory=7 * GIB))

    assert verdict is not None
    assert (verdict.device, verdict.minor, verdict.type) == ("GPU-2", 2, "gpu")
    assert verdict.wanted == verdicts.Amount(20, 7 * GIB)
    assert verdict.free == verdicts.Amount(70, 6 * GIB)
    assert verdict.total == verdicts.Amount(100, 8 * GIB)


TROUBLES = (
    Reason.UNHEALTHY,
    Reason.CORDONED,
    Reason.OCCUPIED,
    Reason.DUPLICATE_UUID,
    Reason.WRONG_RECORD,
)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_is_named_and_may_pass(trouble: Reason) -> None:
    """A card in trouble takes no new pod, and one day it may (I6)."""
    view = build.view(build.device(build.gpu(0, trouble=trouble)))

    shortfall = refusal(view, requests.cards(1))

    assert (shortfall.reason, shortfall.never) == (trouble, False)


def test_what_a_card_is_comes_before_what_is_wrong_with_it() -> None:
    """To heal a card of the wrong model would not help."""
    card = build.gpu(0, model="Tesla T4", trouble=Reason.UNHEALTHY)
    asked = requests.Conditions(models=frozenset({"A40"}))

    verdict = allocator.judge(build.view(build.device(card)), card, requests.cards(1), asked)

    assert verdict is not None
    assert (verdict.reason, verdict.never) == (Reason.MODEL_MISMATCH, True)


@pytest.mark.parametrize(
    "ask",
    [requests.Gpus(1), requests.OtherDevices("rdma", 1, share=0)],
    ids=["nothing of a card", "nothing of a nic"],
)
def test_to_ask_for_nothing_is_a_mistake(ask: requests.Ask) -> None:
    """A share of no size is not granted by accident."""
    view = build.view(build.device(build.gpu(0), build.nic(0)))

    assert (refusal(view, ask).reason, refusal(view, ask).never) == (Reason.INVALID_REQUEST, True)


def test_more_than_one_card_of_core_is_more_than_any_card_has() -> None:
    """A share of 200 percent of one card never fits."""
    shortfall = refusal(build.view(build.device(build.gpu(0))), requests.Gpus(1, core=200))

    assert (shortfall.reason, shortfall.never) == (Reason.TOO_SMALL, True)


# ---------------------------------------------------------------- the node


def test_the_nearest_reason_is_the_nodes() -> None:
    """Two cards are of the wrong model, but enough of the right one exist: what keeps those busy is told."""
    made = build.device(
        build.gpu(0, model="Tesla T4"),
        build.gpu(1, model="Tesla T4"),
        build.gpu(2, model="NVIDIA A40"),
        build.gpu(3, model="NVIDIA A40"),
    )
    wanted = requests.Conditions(models=frozenset({"A40"}))

    shortfall = refusal(build.view(made, build.held(2)), requests.cards(2), conditions=wanted)

    assert (shortfall.reason, shortfall.wanted, shortfall.found) == (Reason.IN_USE, 2, 1)
    assert [(one.minor, one.reason) for one in shortfall.against] == [
        (0, Reason.MODEL_MISMATCH),
        (1, Reason.MODEL_MISMATCH),
        (2, Reason.IN_USE),
    ]


@pytest.mark.parametrize(
    ("cards", "why"), [((), Reason.NO_DEVICE), ((build.gpu(0),), Reason.TOO_FEW_CARDS)], ids=["none", "one"]
)
def test_a_node_with_too_few_cards_never_fits(cards: tuple[object, ...], why: Reason) -> None:
    """Cards that are not there will not be freed."""
    shortfall = refusal(build.view(build.device(*cards)), requests.cards(2))  # type: ignore[arg-type]

    assert (shortfall.reason, shortfall.never) == (why, True)


@pytest.mark.parametrize(("failed", "why"), [("NVML", Reason.SOURCE_FAILED), ("", Reason.SILENT)])
def test_a_closed_node_says_so(failed: str, why: Reason) -> None:
    """Nothing of a node is given out whose agent is silent or cannot see."""
    made = dataclasses.replace(build.device(build.gpu(0)), failed=failed)

    shortfall = refusal(build.view(made, open=False), requests.cards(1))

    assert (shortfall.reason, shortfall.never, shortfall.detail) == (why, False, failed)


def test_containers_that_fit_alone_but_not_together_are_full() -> None:
    """Where each ask would fit, the combination is at fault, and no card is to blame."""
    view = build.view(build.device(build.gpu(0)), {0: device_view.Usage(20, 0, 1)})

    shortfall = refusal(view, requests.Gpus(1, core=50), requests.Gpus(1, core=40))

    assert (shortfall.reason, shortfall.never, shortfall.against) == (Reason.FULL, False, ())


def test_the_demand_that_was_given_up_last_is_the_reason() -> None:
    """Cards withheld and a scope that is too narrow: the scope is what no release of cards would cure."""
    view = build.view(build.node("NVIDIA A40"), withheld=1)
    close = build.grouping(scope=Scope.NUMA)

    assert refusal(view, requests.cards(8)).reason is Reason.WITHHELD
    shortfall = refusal(view, requests.cards(8), grouping=close)
    assert (shortfall.reason, shortfall.never, shortfall.found) == (Reason.SCOPE_MISMATCH, True, 4)


def test_a_container_is_named_where_its_ask_fails_alone() -> None:
    """People read which container asks for too much."""
    assert refusal(build.view(build.device(build.gpu(0))), requests.cards(2)).container == "main"


def test_a_search_that_is_cut_short_says_that_it_does_not_know() -> None:
    """No answer within the effort is no answer for ever."""
    view = build.view(build.device(build.gpu(0), build.gpu(1)))
    pod = build.request(requests.Gpus(1, core=50), requests.Gpus(1, core=60))

    shortfall = shortfalls.explain(view, pod, undecided=True)

    assert (shortfall.reason, shortfall.never) == (Reason.UNDECIDED, False)


def test_containers_that_are_too_much_for_an_empty_node_never_fit() -> None:
    """Three cards for two containers each of a node with four."""
    pod = requests.Request(
        tuple(requests.ContainerRequest(name, (requests.cards(3),)) for name in ("a", "b"))
    )

    shortfall = build.refused(allocator.place(build.view(build.device(*map(build.gpu, range(4)))), pod))

    assert (shortfall.reason, shortfall.never) == (Reason.TOO_FEW_CARDS, True)
    assert (shortfall.wanted, shortfall.found) == (6, 4)


def test_a_search_ends_when_its_effort_is_spent() -> None:
    """Shares that nearly fill cards of many sizes: the search gives up and says so."""
    cards = tuple(build.gpu(at, memory=(100 + at) * GIB) for at in range(8))
    view = build.view(
        build.device(*cards), {at: device_view.Usage(3 * at, at * GIB, 1) for at in range(1, 8)}
    )
    pod = build.request(*(requests.Gpus(1, core=40 + 3 * at) for at in range(12)))
    effort = packing.Effort(200)

    assert finder.find(view, pod, effort) is None

    assert effort.spent


def test_what_is_too_much_by_counting_is_no_long_search() -> None:
    """Nine shares of more than half a card each need nine cards, whichever order they are tried in."""
    made = build.device(*(build.gpu(at) for at in range(8)))
    view = build.view(made, {at: device_view.Usage(3 * at, 0, 1) for at in range(1, 8)})
    pod = build.request(*(requests.Gpus(1, core=52 + at) for at in range(9)))
    effort = packing.Effort()

    assert finder.find(view, pod, effort) is None

    assert not effort.spent


def test_too_many_sets_to_try_still_give_an_answer() -> None:
    """Where no time is left to find the best set for which the rest fits, any such set is taken."""
    cards = (build.gpu(0, memory=80 * GIB), *(build.gpu(at) for at in range(1, 24)))
    asked = build.request(requests.cards(12), requests.Gpus(1, memory=40 * GIB))

    shares = build.given(allocator.place(build.view(build.device(*cards)), asked))["main"]

    assert [share.minor for share in shares if share.core == 0] == [0]


def test_an_absurd_number_of_replicas_is_not_searched_for() -> None:
    """A thousand replicas of one card for one container: no answer, but no crash either."""
    view = build.view(build.device(build.gpu(0, replicas=1024)))

    assert refusal(view, requests.Replicas(1000)).reason is Reason.UNDECIDED
    assert refusal(view, requests.Replicas(10**9)).reason is Reason.FULL


def test_every_reason_says_what_could_help_or_is_the_requests_own_fault() -> None:
    """A pod that waits must know for what."""
    own = {Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST, Reason.UNSUPPORTED_CONSTRAINT}

    assert set(Reason) - set(decisions.LIFTED_BY) == own | {Reason.TOO_MUCH_TOGETHER}


@hypothesis.settings(max_examples=150, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(generate.scenes(most_asks=3))
def test_never_means_not_even_on_an_empty_node(scene: tuple[device_view.View, requests.Request]) -> None:
    """`never` is said if and only if the exhaustive search finds no way on the node with nothing used."""
    view, request = scene
    hypothesis.assume(generate.effort(view, request) <= 10_000)
    shortfall = allocator.place(view, request)
    hypothesis.assume(isinstance(shortfall, allocator.Shortfall))

    possible = next(brute.ways(shortfalls.emptied(view), request), None) is not None

    assert build.refused(shortfall).never == (not possible)


@hypothesis.settings(max_examples=150, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(generate.scenes(most_asks=3))
def test_a_shortfall_blames_only_devices_that_could_not_serve(
    scene: tuple[device_view.View, requests.Request],
) -> None:
    """Each verdict is one that `judge` gives for an ask of the container that is named."""
    view, request = scene
    shortfall = allocator.place(view, request)
    hypothesis.assume(isinstance(shortfall, allocator.Shortfall) and bool(shortfall.container))
    shortfall = build.refused(shortfall)

    (asks,) = (one.asks for one in request.containers if one.name == shortfall.container)

    devices = {one.uuid: one for one in (*view.device.cards, *view.device.others)}
    for against in shortfall.against:
        judged = (
            allocator.judge(view, devices[against.device], ask, request.conditions, grouping=request.grouping)
            for ask in asks
        )
        assert against in judged
    assert shortfall.found < shortfall.wanted
