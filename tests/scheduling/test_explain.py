"""Every pod that does not fit is told why, node by node, in a sentence that reads well (I12)."""

import hypothesis
import pytest

from berth_operator.scheduling import backlog, decisions, explain, inventory, policy
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.nodes import facts
from support import builders, worlds

ABOUT_ONE_CARD = {Reason.UNHEALTHY, Reason.CORDONED, Reason.OCCUPIED, Reason.MIG_MODE}


def asked(picture: inventory.Inventory, pod: backlog.Candidate) -> Refusal:
    """Ask the only node for its reason."""
    (found,) = explain.refusals(picture, pod)
    return found


def troubled(trouble: Reason) -> inventory.Device:
    """Give a node with one good card and one in trouble."""
    return builders.device(cards=[builders.card(0), builders.card(1, trouble=trouble)])


PLAIN = builders.nodes(1)
LARGE = builders.candidate(cards=2)

REASONS: dict[str, tuple[inventory.Inventory, backlog.Candidate, Refusal]] = {
    "a cordoned node": (
        builders.picture(builders.node(unschedulable=True)),
        LARGE,
        Refusal(Reason.UNSCHEDULABLE, "n1"),
    ),
    "a taint": (
        builders.picture(builders.node(taints=(facts.Taint("gpu", "", "NoSchedule"),))),
        LARGE,
        Refusal(Reason.TAINTED, "n1", detail="gpu"),
    ),
    "a selector": (
        builders.picture(builders.node()),
        builders.candidate(demand=builders.demand(where=facts.Where(selector=(("zone", "a"),)))),
        Refusal(Reason.SELECTOR_MISMATCH, "n1"),
    ),
    "no Device": (builders.picture(builders.node()), LARGE, Refusal(Reason.NO_DEVICE, "n1")),
    "a Device without cards": (
        builders.picture(builders.node(), builders.device(cards=0)),
        LARGE,
        Refusal(Reason.NO_DEVICE, "n1"),
    ),
    "a silent agent": (builders.picture(*PLAIN, silent=["n1"]), LARGE, Refusal(Reason.SILENT, "n1")),
    "a failed source": (
        builders.picture(builders.node(), builders.device(failed="NVMLDown")),
        LARGE,
        Refusal(Reason.SOURCE_FAILED, "n1", detail="NVMLDown"),
    ),
    "too few cards": (
        builders.picture(builders.node(), builders.device(cards=1)),
        LARGE,
        Refusal(Reason.TOO_FEW_CARDS, "n1", detail="has 1"),
    ),
    "another model": (
        builders.picture(*PLAIN),
        builders.candidate(models=["T4"]),
        Refusal(Reason.MODEL_MISMATCH, "n1", detail=builders.MODEL),
    ),
    "an unhealthy card": (
        builders.picture(builders.node(), troubled(Reason.UNHEALTHY)),
        LARGE,
        Refusal(Reason.UNHEALTHY, "n1", "GPU-n1-1"),
    ),
    "a cordoned card": (
        builders.picture(builders.node(), troubled(Reason.CORDONED)),
        LARGE,
        Refusal(Reason.CORDONED, "n1", "GPU-n1-1"),
    ),
    "an occupied card": (
        builders.picture(builders.node(), troubled(Reason.OCCUPIED)),
        LARGE,
        Refusal(Reason.OCCUPIED, "n1", "GPU-n1-1"),
    ),
    "a card in MIG mode": (
        builders.picture(builders.node(), troubled(Reason.MIG_MODE)),
        LARGE,
        Refusal(Reason.MIG_MODE, "n1", "GPU-n1-1"),
    ),
    "held cards": (
        builders.picture(*builders.nodes(1, cards=2), builders.hold("a", minors=(0,))),
        LARGE,
        Refusal(Reason.FULL, "n1", detail="1 of 2 free"),
    ),
    "cards that nobody can name": (
        builders.picture(*builders.nodes(1, cards=2), builders.hold("a", withheld=1)),
        LARGE,
        Refusal(Reason.WITHHELD, "n1", detail="ml/a"),
    ),
    "no cpu": (
        builders.picture(builders.node(cpu=500), builders.device()),
        LARGE,
        Refusal(Reason.INSUFFICIENT_RESOURCE, "n1", detail="cpu"),
    ),
    "a resource that the node does not know": (
        builders.picture(*PLAIN),
        builders.candidate(demand=builders.demand(extra={worlds.LICENCE: 1})),
        Refusal(Reason.INSUFFICIENT_RESOURCE, "n1", detail=worlds.LICENCE),
    ),
    "a name that Berth serves, advertised too low": (
        builders.picture(builders.node(extra={worlds.SERVED: 1}), builders.device()),
        builders.candidate(cards=2, demand=facts.Demand(served=((worlds.SERVED, 2),))),
        Refusal(Reason.INSUFFICIENT_RESOURCE, "n1", detail=worlds.SERVED),
    ),
}


@pytest.mark.parametrize(("picture", "pod", "refusal"), REASONS.values(), ids=REASONS.keys())
def test_reason(picture: inventory.Inventory, pod: backlog.Candidate, refusal: Refusal) -> None:
    """Each obstacle has a reason of its own, with its subject."""
    found = asked(picture, pod)

    assert found == refusal


def test_node_speaks_before_its_cards() -> None:
    """What keeps the pod away from the node as a whole is said first."""
    node = builders.node(cpu=0, unschedulable=True, taints=(facts.Taint("gpu", "", "NoSchedule"),))
    picture = builders.picture(node, builders.device(failed="NVMLDown"), silent=["n1"])

    found = asked(picture, LARGE)

    assert found.reason is Reason.UNSCHEDULABLE


def test_what_no_wait_can_cure_is_said_before_what_one_can() -> None:
    """A node that lacks healthy cards says so, even while it is full as well."""
    cards = [builders.card(0, trouble=Reason.UNHEALTHY), builders.card(1)]
    picture = builders.picture(builders.node(), builders.device(cards=cards), builders.hold("a", minors=(1,)))

    found = asked(picture, LARGE)

    assert found == Refusal(Reason.UNHEALTHY, "n1", "GPU-n1-0")


def test_trouble_of_cards_that_would_not_match_is_not_told() -> None:
    """A bad card of another model stands in nobody's way."""
    cards = [builders.card(0, model="T4", trouble=Reason.UNHEALTHY), builders.card(1), builders.card(2)]
    picture = builders.picture(builders.node(), builders.device(cards=cards), builders.hold("a", minors=(1,)))

    found = asked(picture, builders.candidate(cards=2, models=[builders.MODEL]))

    assert found == Refusal(Reason.FULL, "n1", detail="1 of 2 free")


def test_empty_cluster() -> None:
    """Where there is no node, that is the reason, and there is no other."""
    picture = builders.picture(builders.device("n1"))

    found = explain.refusals(picture, LARGE)

    assert found == (Refusal(Reason.NO_NODES),)


def test_node_that_fits_has_no_reason() -> None:
    """To ask a node that fits is a mistake of ours, and is not answered with a pretext."""
    picture = builders.picture(*builders.nodes(1))
    row = picture.row("n1")
    assert row is not None

    with pytest.raises(AssertionError, match="n1 could take ml/p"):
        explain.refusal(picture, row, builders.candidate())


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_each_known_node_gives_one_reason(world: worlds.World, pod: backlog.Candidate) -> None:
    """A pod without a place has exactly one refusal from each node, in the order of their names (I12)."""
    picture = world.paint()
    placement = allocator.place(picture, pod.request, pod.demand, rules=policy.Policy())
    hypothesis.assume(placement is None)

    found = explain.refusals(picture, pod)

    assert [refusal.node for refusal in found] == (sorted(world.nodes) or [""])
    assert all(refusal.reason in decisions.HELPED_BY for refusal in found)


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_node_has_a_reason_exactly_if_it_is_not_able(world: worlds.World, pod: backlog.Candidate) -> None:
    """Search and explanation agree on every node: no refusal without cause, no cause without refusal."""
    picture = world.paint()
    able = allocator.able_nodes(picture, pod.request, pod.demand)

    for name in world.nodes:
        row = picture.row(name)
        assert row is not None
        if able[picture.index[name]]:
            with pytest.raises(AssertionError, match="could take"):
                explain.refusal(picture, row, pod)
        else:
            assert explain.refusal(picture, row, pod).node == name


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_card_is_named_where_it_is_about_one(world: worlds.World, pod: backlog.Candidate) -> None:
    """A refusal over a card's trouble names a card of that node that has this trouble (I12)."""
    picture = world.paint()
    hypothesis.assume(allocator.place(picture, pod.request, pod.demand, rules=policy.Policy()) is None)

    found = explain.refusals(picture, pod)

    for refusal in found:
        named = [
            card.trouble
            for card in (world.devices[refusal.node].cards if refusal.device else ())
            if card.uuid == refusal.device
        ]
        assert named == ([refusal.reason] if refusal.reason in ABOUT_ONE_CARD else [])
        assert explain.sentence(pod, decisions.Wait(pod.uid, found, frozenset()))


# ---------------------------------------------------------------- sentences


def said(*refusals: Refusal, pod: backlog.Candidate = LARGE) -> str:
    """Render these refusals."""
    return explain.sentence(pod, decisions.Wait("uid-p", refusals, frozenset()))


PICKY = builders.candidate(cards=1, models=["t4", "h200"])

SENTENCES: dict[Reason, tuple[str, str, str, str]] = {
    # The detail, then what one node, and what two nodes say of it; then of which card.
    Reason.UNSCHEDULABLE: ("", "1 is cordoned", "2 are cordoned", ""),
    Reason.TAINTED: ("gpu", "1 has the untolerated taint gpu", "2 have the untolerated taint gpu", ""),
    Reason.SELECTOR_MISMATCH: (
        "",
        "1 does not match the node selector or affinity",
        "2 do not match the node selector or affinity",
        "",
    ),
    Reason.INSUFFICIENT_RESOURCE: ("cpu", "1 lacks cpu", "2 lack cpu", ""),
    Reason.NO_DEVICE: ("", "1 has no cards", "2 have no cards", ""),
    Reason.SILENT: ("", "1 has a silent agent", "2 have silent agents", ""),
    Reason.SOURCE_FAILED: (
        "NVMLDown",
        "1 cannot read its cards (NVMLDown)",
        "2 cannot read their cards (NVMLDown)",
        "",
    ),
    Reason.TOO_FEW_CARDS: ("has 1", "1 has fewer than 1 card", "2 have fewer than 1 card", ""),
    Reason.MODEL_MISMATCH: (
        "A40",
        "1 has too few cards of model h200 or t4",
        "2 have too few cards of model h200 or t4",
        "",
    ),
    Reason.UNHEALTHY: (
        "",
        "1 has too few healthy cards (such as GPU-1 on n1)",
        "2 have too few healthy cards (such as GPU-1 on n1)",
        "GPU-1",
    ),
    Reason.CORDONED: (
        "",
        "1 has cordoned cards (such as GPU-1 on n1)",
        "2 have cordoned cards (such as GPU-1 on n1)",
        "GPU-1",
    ),
    Reason.OCCUPIED: (
        "",
        "1 has cards occupied by strangers (such as GPU-1 on n1)",
        "2 have cards occupied by strangers (such as GPU-1 on n1)",
        "GPU-1",
    ),
    Reason.MIG_MODE: (
        "",
        "1 has cards in MIG mode (such as GPU-1 on n1)",
        "2 have cards in MIG mode (such as GPU-1 on n1)",
        "GPU-1",
    ),
    Reason.WITHHELD: (
        "ml/a",
        "1 has cards held by pods without a readable allocation (ml/a)",
        "2 have cards held by pods without a readable allocation (ml/a)",
        "",
    ),
    Reason.FULL: ("0 of 1 free", "1 is full", "2 are full", ""),
}


@pytest.mark.parametrize("reason", SENTENCES, ids=str)
def test_sentence(reason: Reason) -> None:
    """A reason reads well for one node and for several."""
    detail, one, two, card = SENTENCES[reason]
    here, there = (Refusal(reason, name, card, detail) for name in ("n1", "n2"))

    assert said(here, pod=PICKY) == f"0/1 nodes fit: {one}"
    assert said(here, there, pod=PICKY) == f"0/2 nodes fit: {two}"


def test_sentence_of_an_empty_cluster() -> None:
    """Where there are no nodes, nothing is counted."""
    assert said(Refusal(Reason.NO_NODES)) == "there are no nodes"


def test_every_reason_to_wait_has_a_sentence() -> None:
    """No reason that a node may give is left without words, here or in the program."""
    assert set(SENTENCES) | {Reason.NO_NODES} == set(explain.SENTENCES) == set(decisions.HELPED_BY)


def test_frequent_reasons_come_first() -> None:
    """Reasons are counted, the most frequent first, and differing details are kept apart."""
    found = said(
        Refusal(Reason.TAINTED, "n1", detail="a"),
        Refusal(Reason.TAINTED, "n2", detail="b"),
        Refusal(Reason.FULL, "n3", detail="0 of 2 free"),
        Refusal(Reason.FULL, "n4", detail="0 of 2 free"),
    )

    assert found == "0/4 nodes fit: 2 are full; 1 has the untolerated taint a; 1 has the untolerated taint b"


def test_nearest_node_is_named() -> None:
    """Of the full nodes the one with the most free cards is named, the first of equals by name."""
    found = said(
        Refusal(Reason.FULL, "n1", detail="1 of 12 free"),
        Refusal(Reason.FULL, "n2", detail="10 of 12 free"),
        Refusal(Reason.FULL, "n3", detail="10 of 12 free"),
    )

    assert found == "0/3 nodes fit: 3 are full (nearest: n2 has 10 of 12 free)"


def test_rejection_tells_all_faults() -> None:
    """A request that cannot be served is told everything that is wrong with it at once."""
    faults = (
        Refusal(Reason.INVALID_REQUEST, detail="this is wrong"),
        Refusal(Reason.UNSUPPORTED_REQUEST, detail="that is not served"),
    )

    found = explain.sentence(LARGE, decisions.Reject("uid-p", faults))

    assert found == "this is wrong; that is not served"
