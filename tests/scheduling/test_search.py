"""The search finds the best place if there is one, and never a card that must not be given."""

import dataclasses
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling import backlog, columns, cycle, decisions, inventory, policy, search
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import boards, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts
from scheduling import second_opinion
from support import builders, worlds

RULES = policy.Policy()
HALF = requests.Gpus(1, core=50, ratio=50)
THOROUGH = hypothesis.settings(worlds.PROPERTY, max_examples=100)
TENTH = requests.Gpus(1, core=10, ratio=10)


def place(
    picture: inventory.Inventory, candidate: backlog.Candidate, rules: policy.Policy = RULES
) -> decisions.Placement | None:
    """Look for a place."""
    return search.Search(picture).place(candidate.request, candidate.demand, rules=rules)


def minors(placement: decisions.Placement | None) -> list[int] | None:
    """List the minors of a placement."""
    return None if placement is None else [share.minor for share in worlds.given(placement)]


# ---------------------------------------------------------------- what is given


def test_lowest_minors_are_taken() -> None:
    """Of equal cards the lowest minors are given, around those that are held."""
    picture = builders.picture(*builders.nodes(1, cards=6), builders.hold("a", minors=(0, 3)))

    found = place(picture, builders.candidate(cards=3))

    assert minors(found) == [1, 2, 4]


def test_whole_card_is_given_whole() -> None:
    """A share of a whole card is all of its core and all of its memory, in bytes (I10)."""
    picture = builders.picture(*builders.nodes(1))

    found = place(picture, builders.candidate())

    assert found is not None
    assert worlds.given(found) == (decisions.Share("GPU-n1-0", 0, 100, builders.MEMORY),)


def test_share_is_given_in_bytes() -> None:
    """A share in percent of a card is written in bytes of that very card, rounded up (I10)."""
    card = builders.card(memory=builders.GIB + 1)
    picture = builders.picture(builders.node(), builders.device(cards=[card]))

    found = place(picture, builders.candidate(cards=HALF))

    assert found is not None
    assert worlds.given(found) == (decisions.Share("GPU-n1-0", 0, 50, builders.GIB // 2 + 1),)


@pytest.mark.parametrize("silent", [[], ["n1"]], ids=["no Device", "a silent agent"])
def test_pod_without_cards_asks_no_device(silent: list[str]) -> None:
    """A pod that asks for no card goes where there is none, or none to be had, and gets no grant."""
    known = builders.nodes(1) if silent else (builders.node(),)
    picture = builders.picture(*known, silent=silent)

    found = place(picture, builders.candidate(cards=0))

    assert found == decisions.Placement("n1", ())


def test_equal_nodes_go_by_name() -> None:
    """Between equal nodes the name decides, whichever came first."""
    picture = builders.picture(*reversed(builders.nodes(3)))

    found = [place(picture, builders.candidate(), policy.Policy(strategy)) for strategy in Strategy]

    assert [one and one.node for one in found] == ["n1"] * len(Strategy)


def test_pod_chooses_its_own_strategy() -> None:
    """What a pod says of the strategy goes before the policy."""
    picture = builders.picture(*builders.nodes(2), builders.hold("a", "n1", (0,)))
    spread = builders.request(1, manner=requests.Manner(strategy=Strategy.SPREAD))
    binpack = policy.Policy(Strategy.BINPACK)

    plain = place(picture, builders.candidate(), binpack)
    own = place(picture, builders.candidate(request=spread), binpack)

    assert plain is not None
    assert own is not None
    assert (plain.node, own.node) == ("n1", "n2")


@pytest.mark.parametrize(
    ("numa", "required", "minors_"),
    [
        pytest.param((0, 1, 1), True, [1, 2], id="required and to be had"),
        pytest.param((0, 1, 2), True, None, id="required and not to be had"),
        pytest.param((0, 1, 2), False, [0, 1], id="preferred and not to be had"),
        pytest.param((0, 1, 1), False, [1, 2], id="preferred and to be had"),
    ],
)
def test_scope(numa: tuple[int, ...], required: bool, minors_: list[int] | None) -> None:  # noqa: FBT001  a column of the table
    """A preferred scope is tried as a condition first, and given up where it cannot be had."""
    cards = [builders.card(minor, numa=at) for minor, at in enumerate(numa)]
    groups = tuple(
        boards.mask_of(slot for slot, at in enumerate(numa) if at == which) for which in sorted(set(numa))
    )
    flat = tuple(tuple(0 for _ in numa) for _ in numa)
    device = dataclasses.replace(
        builders.device(cards=cards), board=boards.Board(len(numa), flat, ((Scope.NUMA, groups),))
    )
    asked = builders.request(2, manner=requests.Manner(scope=Scope.NUMA, required=required))

    found = place(builders.picture(builders.node(), device), builders.candidate(request=asked))

    assert minors(found) == minors_


# ---------------------------------------------------------------- what is never given

FORBIDDEN: dict[str, devices.Device] = {
    "unhealthy": builders.device(cards=[builders.card(trouble=Reason.UNHEALTHY)]),
    "cordoned": builders.device(cards=[builders.card(trouble=Reason.CORDONED)]),
    "occupied by a stranger": builders.device(cards=[builders.card(trouble=Reason.OCCUPIED)]),
    "in MIG mode": builders.device(cards=[builders.card(mig=True)]),
    "in MIG mode and cut": builders.device(
        cards=[builders.card(mig=True, instances=builders.instances("n1", 0, 2))]
    ),
    "shared by replicas": builders.device(cards=[builders.card(replicas=2)]),
    "of a failed source": builders.device(cards=1, failed="NVMLDown"),
    "of another model": builders.device(cards=[builders.card(model="Tesla T4")]),
    "not there": builders.device(cards=0),
}


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
@pytest.mark.parametrize("device", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_card_that_must_not_be_given(device: devices.Device, ask: requests.Ask) -> None:
    """No pod gets such a card, nor any part of it (I6)."""
    picture = builders.picture(builders.node(), device)

    found = place(picture, builders.candidate(cards=ask, models=[builders.MODEL]))

    assert found is None


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(builders.hold("a", minors=(0,)), id="by name"),
        pytest.param(builders.hold("a", withheld=1), id="without a name"),
    ],
)
@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_held_card_is_not_given(hold: Hold, ask: requests.Ask) -> None:
    """What somebody holds is not given, whether or not it can be named (I9)."""
    picture = builders.picture(*builders.nodes(1, cards=1), hold)

    found = place(picture, builders.candidate(cards=ask))

    assert found is None


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_cards_of_an_absent_node_are_not_given(ask: requests.Ask) -> None:
    """A Device without its Node takes no pod."""
    picture = builders.picture(builders.device())

    found = place(picture, builders.candidate(cards=ask))

    assert found is None


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_cards_of_a_silent_agent_are_not_given(ask: requests.Ask) -> None:
    """A silent agent's cards take no pod; those of the others do."""
    picture = builders.picture(*builders.nodes(2), silent=["n1"])

    found = place(picture, builders.candidate(cards=ask))

    assert found is not None
    assert found.node == "n2"


def test_withheld_cards_count_against_any_choice_of_model() -> None:
    """A card that nobody can name may be of the very model that is asked for."""
    cards = [builders.card(0, model="Tesla T4"), builders.card(1), builders.card(2)]
    picture = builders.picture(builders.node(), builders.device(cards=cards), builders.hold("a", withheld=1))

    one_of_two = place(picture, builders.candidate(models=[builders.MODEL]))
    the_only = place(picture, builders.candidate(models=["T4"]))

    assert minors(one_of_two) == [1]
    assert the_only is None


def test_withheld_cards_leave_started_ones_to_share() -> None:
    """A card that is held by name in part cannot be the one that nobody can name: its rest is given."""
    started = dataclasses.replace(builders.hold("a"), shares=(builders.share(1, core=50, memory=1),))
    picture = builders.picture(*builders.nodes(1, cards=2), started, builders.hold("b", withheld=1))

    found = place(picture, builders.candidate(cards=TENTH))

    assert minors(found) == [1]


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("ask", "fits"),
    [
        pytest.param(requests.Gpus(1, core=40, ratio=25), True, id="exactly what is left"),
        pytest.param(requests.Gpus(1, core=41, ratio=25), False, id="too much compute"),
        pytest.param(requests.Gpus(1, core=40, ratio=26), False, id="too much memory in percent"),
        pytest.param(requests.Gpus(1, memory=20 * builders.GIB), True, id="exactly the bytes that are left"),
        pytest.param(requests.Gpus(1, memory=20 * builders.GIB + 1), False, id="a byte too much"),
        pytest.param(requests.Gpus(2, core=1, memory=1), False, id="shares of more cards than there are"),
    ],
)
def test_share_of_a_started_card(ask: requests.Gpus, fits: bool) -> None:  # noqa: FBT001  a column of the table
    """A share fits where compute and memory are left for it, to the last percent and byte."""
    taken = builders.share(core=60, memory=60 * builders.GIB)
    hold = dataclasses.replace(builders.hold("a"), shares=(taken,))
    picture = builders.picture(*builders.nodes(1, cards=1), hold)

    found = place(picture, builders.candidate(cards=ask))

    assert (found is not None) is fits


# ---------------------------------------------------------------- conditions

CONDITIONS: dict[str, tuple[requests.Conditions, list[int] | None]] = {
    "a model": (requests.Conditions(models=frozenset({"t4"})), [1]),
    "any model but one": (requests.Conditions(avoid_models=frozenset({builders.MODEL})), [1]),
    "a pattern": (requests.Conditions(pattern="h.00"), [2]),
    "a pattern that cannot be read": (requests.Conditions(pattern="("), None),
    "a list of uuids": (requests.Conditions(uuids=frozenset({"GPU-n1-2", "GPU-gone"})), [2]),
    "any uuid but these": (requests.Conditions(avoid_uuids=frozenset({"GPU-n1-0", "GPU-n1-1"})), [2]),
    "much memory": (requests.Conditions(memory_at_least=100 * builders.GIB), [2]),
    "two that no card meets at once": (
        requests.Conditions(models=frozenset({"t4"}), memory_at_least=100 * builders.GIB),
        None,
    ),
}


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
@pytest.mark.parametrize(("asked", "expected"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_conditions(asked: requests.Conditions, expected: list[int] | None, ask: requests.Ask) -> None:
    """All conditions hold of the very card that is given, whole or in part."""
    cards = [
        builders.card(0),
        builders.card(1, model="Tesla T4", memory=15 * builders.GIB),
        builders.card(2, model="H200", memory=141 * builders.GIB),
    ]
    picture = builders.picture(builders.node(), builders.device(cards=cards))

    found = place(picture, builders.candidate(request=builders.request(ask, conditions=asked)))

    assert minors(found) == expected


# ---------------------------------------------------------------- against brute force


@THOROUGH
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), strategy=st.sampled_from(list(Strategy)))
def test_second_opinion_agrees(world: worlds.World, pod: backlog.Candidate, strategy: Strategy) -> None:
    """Brute force finds the same node and the same devices, or none as well."""
    rules = policy.Policy(strategy)
    expected = second_opinion.best(world, pod, rules)

    found = place(world.paint(), pod, rules)

    assert found == expected


@THOROUGH
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_second_opinion_agrees_on_every_node(world: worlds.World, pod: backlog.Candidate) -> None:
    """Not only the best node: alone, each one takes the pod exactly when brute force says so."""
    expected = second_opinion.able(world, pod)

    found = []
    for name in world.nodes:
        alone = dataclasses.replace(world, nodes={name: world.nodes[name]})
        if place(alone.paint(), pod) is not None:
            found.append(name)

    assert sorted(found) == expected


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_only_sound_devices_are_given(world: worlds.World, pod: backlog.Candidate) -> None:
    """Whatever is given is well, there, and of a node whose agent is heard (I6)."""
    found = place(world.paint(), pod)

    if found is not None:
        assert {share.uuid for share in worlds.given(found)} <= second_opinion.sound(world, found.node)


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_grants_are_what_was_asked(world: worlds.World, pod: backlog.Candidate) -> None:
    """Each container gets as many whole cards and shares of cards as it asks for, all of one node (I2)."""
    found = place(world.paint(), pod)

    if found is None:
        return
    counted = requests.Gpus | requests.Instances
    asked = {one.name: one.asks[0] for one in pod.request.containers}
    counts = {grant.container: len(grant.shares) for grant in found.grants}
    assert set(counts) == set(asked)
    assert all(counts[name] == ask.count for name, ask in asked.items() if isinstance(ask, counted))
    assert all(f"-{found.node}" in share.uuid for grant in found.grants for share in grant.shares)


# ---------------------------------------------------------------- what is remembered

CHANGES = (
    *("charge", "charge", "charge", "release", "release"),
    *("put node", "drop node", "put device", "drop device", "hear", "teach"),
)


def change(world: worlds.World, picture: inventory.Inventory, data: st.DataObject) -> None:
    """Change the truth and the picture of it alike."""
    at = data.draw(st.sampled_from(worlds.NODES))
    match data.draw(st.sampled_from(CHANGES)):
        case "charge":
            hold = data.draw(worlds.held(f"h{data.draw(st.integers(0, 5))}"))
            if hold.uid not in world.holds:
                world.holds[hold.uid] = hold
                picture.charge(hold)
        case "release" if world.holds:
            uid = data.draw(st.sampled_from(sorted(world.holds)))
            del world.holds[uid]
            picture.release(uid)
        case "teach":
            uid, sample = data.draw(st.sampled_from(["t1", "t2"])), data.draw(worlds.SAMPLES)
            world.samples[uid] = sample
            picture.workload.see(uid, sample)
        case what:
            change_node(world, picture, data, what, at)


def change_node(
    world: worlds.World, picture: inventory.Inventory, data: st.DataObject, what: str, at: str
) -> None:
    """Change a node, its devices or its agent."""
    match what:
        case "put node":
            world.nodes[at] = data.draw(worlds.nodes(at))
            picture.put_node(world.nodes[at])
        case "drop node":
            world.nodes.pop(at, None)
            picture.drop_node(at)
        case "put device":
            world.devices[at] = data.draw(worlds.devices(at))
            picture.put_device(world.devices[at])
            picture.set_silent(at, at not in world.heard)
        case "drop device":
            world.devices.pop(at, None)
            world.heard.discard(at)
            picture.drop_device(at)
        case "hear" if at in world.devices:
            heard = data.draw(st.booleans())
            (world.heard.add if heard else world.heard.discard)(at)
            picture.set_silent(at, not heard)


def decide(places: search.Search, pod: backlog.Candidate, rules: policy.Policy) -> decisions.Decision:
    """Decide for one pod."""
    waiting = backlog.Backlog()
    waiting.push(pod)
    (answer,) = cycle.decide(places, waiting, 0.0, rules)
    return answer


@THOROUGH
@hypothesis.given(
    world=worlds.worlds(),
    pods=st.lists(worlds.candidates(), min_size=1, max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    data=st.data(),
)
def test_remembered_answers_are_true(
    world: worlds.World, pods: list[backlog.Candidate], strategy: Strategy, data: st.DataObject
) -> None:
    """After any changes a search that remembers answers as one that has just begun."""
    rules = policy.Policy(strategy)
    places = search.Search(world.paint())

    for _ in range(data.draw(st.integers(1, 12))):
        for pod in pods:
            fresh = decide(search.Search(world.paint()), pod, rules)
            assert decide(places, pod, rules) == fresh
        for _ in range(data.draw(st.integers(0, 3))):
            change(world, places.picture, data)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods with a thousand different requests do not fill the memory."""
    monkeypatch.setattr(search, "MOST_REMEMBERED", 4)
    places = search.Search(builders.picture(*builders.nodes(1)))

    for cpu in range(1, 20):
        places.place(builders.request(1), builders.demand(cpu), rules=RULES)

    assert len(places._answers) <= 4


def test_log_that_was_cut_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known any more what has changed, all nodes are asked again."""
    picture = builders.picture(*builders.nodes(3, cards=1))
    places = search.Search(picture)
    before = places.place(builders.request(1), builders.demand(), rules=RULES)

    monkeypatch.setattr(columns, "LOG_KEPT", 1)
    for at in (1, 2, 3):
        picture.charge(builders.hold(f"h{at}", f"n{at}", (0,)))

    assert before is not None
    assert places.place(builders.request(1), builders.demand(), rules=RULES) is None


def test_one_change_asks_one_node_anew() -> None:
    """A pod with a question that was asked before looks only at the nodes that changed."""
    picture = builders.picture(*builders.nodes(9))
    places = search.Search(picture)
    places.place(builders.request(1), builders.demand(), rules=RULES)
    picture.charge(builders.hold("a", "n4", (0,)))

    with mock.patch.object(search, "rank", wraps=search.rank) as asked:
        places.place(builders.request(1), builders.demand(), rules=RULES)

    ((_, rows, *_), _) = asked.call_args
    assert rows.tolist() == [picture.index["n4"]]


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), order=st.permutations(worlds.NODES))
def test_order_of_arrival_finds_the_same(
    world: worlds.World, pod: backlog.Candidate, order: list[str]
) -> None:
    """Equal clusters give equal places, whichever node came first (I11)."""
    expected = place(world.paint(), pod)

    found = place(world.paint(order), pod)

    assert found == expected


def test_node_without_room_takes_nothing() -> None:
    """Free cards alone are not enough."""
    picture = builders.picture(builders.node(cpu=0), builders.device())

    found = place(picture, builders.candidate(demand=facts.Demand(((facts.CPU, 1),))))

    assert found is None
