"""Why not: the node's reason, what is wrong with each device, and whether it could ever fit."""

from typing import Any, Final

import hypothesis
import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    allocator,
    device_view,
    exclusivity,
    finder,
    requests,
    shortfalls,
    verdicts,
)
from berth_operator.scheduling.devices.search_effort import Effort
from scheduling.devices import brute
from scheduling.placements import granted, refused
from support import builders, random_devices, thorough, topologies
from support.builders import GIB, card, request, view

PART: Final = requests.Gpus(1, core=50, memory=60 * GIB)
A40: Final = requests.Conditions(models=frozenset({"A40"}))
SICK_T4: Final = card(model="Tesla T4", trouble=Reason.UNHEALTHY)


# ---------------------------------------------------------------- one card


@pytest.mark.parametrize(
    ("usage", "ask", "why"),
    [
        pytest.param(None, requests.cards(1), Reason.IN_USE, id="one pod has it, whole wanted"),
        pytest.param(None, PART, Reason.IN_USE, id="one pod has it, a share wanted"),
        pytest.param((20, GIB, 1), requests.cards(1), Reason.PARTLY_USED, id="some pods have a part"),
        pytest.param((60, GIB, 2), PART, Reason.FULL, id="too little compute is left"),
        pytest.param((20, 30 * GIB, 1), PART, Reason.FULL, id="too little memory is left"),
    ],
)
def test_a_used_card_says_how_it_is_used(
    usage: tuple[int, int, int] | None, ask: requests.Ask, why: Reason
) -> None:
    """A card that one pod has alone, one that several share, and one with too little left differ."""
    given = view([card()], {0: usage and device_view.Usage(*usage)})

    verdict = allocator.judge(given, card(), ask)

    assert verdict is not None
    assert (verdict.reason, verdict.never_fits) == (why, False)


def test_a_verdict_has_the_figures_for_a_sentence() -> None:
    """It tells what was wanted, what is left and what there is, in percent and bytes."""
    given = view([card(2)], {2: device_view.Usage(30, 20 * GIB, 1)})

    verdict = allocator.judge(given, card(2), requests.Gpus(1, core=20, memory=70 * GIB))

    assert verdict == verdicts.Verdict(
        device="GPU-n1-2",
        minor=2,
        type="gpu",
        reason=Reason.FULL,
        never_fits=False,
        wanted=verdicts.Amount(20, 70 * GIB),
        free=verdicts.Amount(70, 60 * GIB),
        total=verdicts.Amount(100, 80 * GIB),
    )


def test_what_a_card_is_comes_before_what_is_wrong_with_it() -> None:
    """To heal a card of the wrong model would not help."""
    verdict = allocator.judge(view([SICK_T4]), SICK_T4, requests.cards(1), A40)

    assert verdict is not None
    assert (verdict.reason, verdict.never_fits) == (Reason.MODEL_MISMATCH, True)


# ---------------------------------------------------------------- the node

MODELS: Final = [
    card(minor, model=model) for minor, model in enumerate(("Tesla T4", "Tesla T4", "A40", "A40"))
]
EIGHT_A40: Final = view(topologies.device("n1", "8xA40"), withheld=1)


def rdma(share: int) -> requests.OtherDevices:
    """Ask for a part of a NIC."""
    return requests.OtherDevices("rdma", 1, share)


CASES: Final[dict[str, tuple[device_view.View, requests.DeviceRequest, dict[str, Any]]]] = {
    **{
        f"a card in trouble, which may pass: {trouble}": (
            view([card(trouble=trouble)]),
            request(1),
            {"reason": trouble, "never_fits": False},
        )
        for trouble in (
            Reason.UNHEALTHY,
            Reason.CARD_CORDONED,
            Reason.OCCUPIED,
            Reason.DUPLICATE_UUID,
            Reason.INVALID_ALLOCATION,
        )
    },
    **{
        f"a share of no size of a {what}": (
            view([card(), builders.nic()]),
            request(ask),
            {"reason": Reason.INVALID_REQUEST, "never_fits": True},
        )
        for what, ask in (("card", requests.Gpus(1)), ("NIC", requests.OtherDevices("rdma", 1, share=0)))
    },
    "more compute than any card has": (
        view([card()]),
        request(requests.Gpus(1, core=200)),
        {"reason": Reason.TOO_SMALL, "never_fits": True},
    ),
    "two cards are of the wrong model, and one of the right ones is in use": (
        view(MODELS, {2: None}),
        request(2, conditions=A40),
        {"reason": Reason.IN_USE, "wanted": 2, "found": 1},
    ),
    "no card": (view([]), request(2), {"reason": Reason.NO_DEVICE, "never_fits": True}),
    "too few cards, and which container wants them": (
        view([card()]),
        request(2),
        {"reason": Reason.TOO_FEW_CARDS, "never_fits": True, "container": "c0"},
    ),
    "a source that failed": (
        view(builders.device(failed="NVML"), in_service=False),
        request(1),
        {"reason": Reason.SOURCE_FAILED, "never_fits": False, "detail": "NVML"},
    ),
    "a silent agent": (
        view([card()], in_service=False),
        request(1),
        {"reason": Reason.SILENT, "never_fits": False, "detail": ""},
    ),
    "asks that fit alone but not together, for which no card is to blame": (
        view([card()], {0: device_view.Usage(20, 0, 1)}),
        request((requests.Gpus(1, core=50), requests.Gpus(1, core=40))),
        {"reason": Reason.FULL, "never_fits": False, "verdicts": ()},
    ),
    "a withheld card": (EIGHT_A40, request(8), {"reason": Reason.WITHHELD}),
    "a scope, which no release of withheld cards would cure": (
        EIGHT_A40,
        request(8, grouping=requests.Grouping(scope=Scope.NUMA)),
        {"reason": Reason.SCOPE_MISMATCH, "never_fits": True, "found": 4},
    ),
    "containers that are too much even for the empty node": (
        view([card(minor) for minor in range(4)]),
        request(3, 3),
        {"reason": Reason.TOO_FEW_CARDS, "never_fits": True, "wanted": 6, "found": 4},
    ),
    "asks for parts of NICs that fit alone but not together": (
        view([card(), builders.nic()]),
        request(rdma(50), rdma(60)),
        {"reason": Reason.TOO_FEW_CARDS, "never_fits": True, "detail": "rdma", "wanted": 0},
    ),
    "asks for parts of NICs of which too much is taken": (
        view([card(), builders.nic()], {"rdma-n1-0": device_view.Usage(50, 0, 1)}),
        request(rdma(30), rdma(30)),
        {"reason": Reason.FULL, "never_fits": False, "detail": "rdma"},
    ),
    "cards and NICs, of which the NICs are too few": (
        view([card(0), card(1), builders.nic()]),
        request((requests.cards(1), rdma(50)), (requests.cards(1), rdma(60))),
        {"reason": Reason.TOO_FEW_CARDS, "never_fits": True, "detail": "rdma"},
    ),
    "cards and NICs, of which the cards are too few": (
        view([card(), builders.nic(0), builders.nic(1)]),
        request((requests.cards(1), rdma(50)), (requests.cards(1), rdma(60))),
        {"reason": Reason.TOO_FEW_CARDS, "never_fits": True, "detail": "", "wanted": 2, "found": 1},
    ),
    "more replicas than can be searched for": (
        view([card(replicas=1024)]),
        request(requests.Replicas(1000)),
        {"reason": Reason.UNDECIDED},
    ),
    "far more replicas than there are": (
        view([card(replicas=1024)]),
        request(requests.Replicas(10**9)),
        {"reason": Reason.FULL},
    ),
}


@pytest.mark.parametrize(("given", "asked", "expected"), CASES.values(), ids=CASES)
def test_the_nodes_reason(
    given: device_view.View, asked: requests.DeviceRequest, expected: dict[str, Any]
) -> None:
    """The nearest reason is told, and whether it could ever be lifted."""
    shortfall = refused(given, asked)

    assert {name: getattr(shortfall, name) for name in expected} == expected


def test_each_card_has_its_own_reason() -> None:
    """Which of them are of the wrong model, and which are in use."""
    shortfall = refused(view(MODELS, {2: None}), request(2, conditions=A40))

    assert [(verdict.minor, verdict.reason) for verdict in shortfall.verdicts] == [
        (0, Reason.MODEL_MISMATCH),
        (1, Reason.MODEL_MISMATCH),
        (2, Reason.IN_USE),
    ]


def test_a_search_that_is_cut_short_says_that_it_does_not_know() -> None:
    """No answer within the effort is no answer for ever."""
    asked = request(requests.Gpus(1, core=50), requests.Gpus(1, core=60))

    shortfall = shortfalls.explain(view([card(0), card(1)]), asked, undecided=True)

    assert (shortfall.reason, shortfall.never_fits) == (Reason.UNDECIDED, False)


@pytest.mark.parametrize(
    ("asks", "steps", "spent"),
    [
        pytest.param([40 + 3 * at for at in range(12)], 200, True, id="shares that nearly fill the cards"),
        pytest.param([52 + at for at in range(9)], 10**6, False, id="too much by counting alone"),
    ],
)
def test_a_search_ends_when_its_effort_is_spent(asks: list[int], steps: int, *, spent: bool) -> None:
    """Shares of cards of many sizes are given up; what adding up refuses takes no search."""
    given = view(
        [card(minor, memory=(100 + minor) * GIB) for minor in range(8)],
        {minor: device_view.Usage(3 * minor, minor * GIB, 1) for minor in range(1, 8)},
    )
    effort = Effort(steps)

    assert finder.find(given, request(*(requests.Gpus(1, core=core) for core in asks)), effort) is None
    assert effort.cut_short is spent


def test_too_many_sets_to_try_still_give_an_answer() -> None:
    """Where no time is left to find the best set for which the rest fits, any such set is taken."""
    cards = [card(0, memory=800 * GIB), *(card(minor) for minor in range(1, 24))]
    asked = request((requests.cards(12), requests.Gpus(1, memory=400 * GIB)))

    shares = granted(view(cards), asked)

    assert [share.minor for share in shares if share.core == 0] == [0]


@hypothesis.settings(
    max_examples=thorough.examples(150), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
@hypothesis.given(random_devices.nodes_and_pods(most_asks=3))
def test_never_means_not_even_on_an_empty_node(case: tuple[device_view.View, requests.DeviceRequest]) -> None:
    """`never_fits` is said if and only if exhaustive search finds no way on the node with nothing used."""
    given, asked = case
    hypothesis.assume(random_devices.effort(given, asked) <= 10_000)
    shortfall = allocator.allocate_or_explain(given, asked)
    hypothesis.assume(isinstance(shortfall, allocator.Shortfall))
    assert isinstance(shortfall, allocator.Shortfall)

    possible = next(brute.ways(shortfalls.emptied(given), asked), None) is not None

    assert shortfall.never_fits == (not possible)


@hypothesis.settings(
    max_examples=thorough.examples(150), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
@hypothesis.given(random_devices.nodes_and_pods(most_asks=3))
def test_a_shortfall_blames_only_devices_that_could_not_serve(
    case: tuple[device_view.View, requests.DeviceRequest],
) -> None:
    """Each verdict is one that `judge` gives for an ask of the container that is named."""
    given, asked = case
    shortfall = allocator.allocate_or_explain(given, asked)
    hypothesis.assume(isinstance(shortfall, allocator.Shortfall) and bool(shortfall.container))
    assert isinstance(shortfall, allocator.Shortfall)
    (asks,) = (one.asks for one in asked.containers if one.name == shortfall.container)

    seen = exclusivity.for_request(given, asked)
    judged = [
        allocator.judge(seen, device, ask, asked.conditions, grouping=asked.grouping)
        for device in (*seen.device.cards, *seen.device.others)
        for ask in asks
    ]

    assert set(shortfall.verdicts) <= set(judged)
    assert shortfall.found < shortfall.wanted
