"""Each uuid belongs to one node, whoever else publishes it: the first that was seen, or is recorded."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import uuid_ownership, uuid_records
from berth_operator.scheduling.devices import facts
from support import builders, clock

A = frozenset("a")


def publishes(node: str, *uuids: str, instances: Iterable[str] = ()) -> facts.Device:
    """Return a node with these cards, the first of which is cut into these instances."""
    found = tuple(
        facts.Instance(uuid, builders.PROFILE, builders.GIB, at) for at, uuid in enumerate(instances)
    )
    cards = [
        facts.Card(uuid, at, builders.MODEL, builders.MEMORY, instances=found if at == 0 else ())
        for at, uuid in enumerate(uuids)
    ]
    return builders.device(node, cards)


def known(
    *devices: tuple[facts.Device, Iterable[str]], time: Callable[[], float] = float
) -> uuid_ownership.UuidOwnership:
    """Return what is known after all Devices were read once, in whatever order the server lists them."""
    found = uuid_ownership.UuidOwnership(time)
    for device, recorded in devices:
        found.publish(device, uuid_records.Record(frozenset(recorded)))
    found.ordered = True
    return found


def test_a_uuid_that_one_node_publishes_is_its_own() -> None:
    """Nobody is in its way, and it may be recorded."""
    found = known((publishes("n1", "a", "b"), ()))

    assert (found.kept("n1"), found.lost("n1"), found.contested("n1")) == (("a", "b"), frozenset(), {})
    assert (found.keeper("a"), found.keeper("never seen")) == ("n1", "")


def test_the_first_that_was_seen_keeps_it() -> None:
    """A later claim is not given, and changes nothing for the first but that both are told."""
    found = known((publishes("n1", "a"), ()))

    affected = found.publish(publishes("n2", "a", "b"))

    assert affected == {"n1", "n2"}
    assert [found.kept(node) for node in ("n1", "n2")] == [("a",), ("b",)]
    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]
    assert [found.contested(node) for node in ("n1", "n2")] == [{"a": ("n2",)}, {"a": ("n1",)}]


def test_a_claim_too_many_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each uuid that another node publishes as well, what is known is written once."""
    many = [f"u{at}" for at in range(500)]
    found = known((publishes("n1", *many), ()))
    made: list[object] = []

    def counting(make: Callable[..., Any]) -> Callable[..., Any]:
        def made_anew(*one: Any, **what: Any) -> Any:
            made.append(what)
            return make(*one, **what)

        return made_anew

    monkeypatch.setattr(uuid_ownership, "UuidHistory", counting(uuid_records.UuidHistory))
    monkeypatch.setattr(dataclasses, "replace", counting(dataclasses.replace))
    found.publish(publishes("n2", *many))

    assert len(made) == len(many)


def test_neither_gets_it_where_nobody_saw_who_was_first() -> None:
    """Both were there when Berth first looked, and nothing is recorded."""
    found = known((publishes("n1", "a"), ()), (publishes("n2", "a"), ()))

    assert (found.keeper("a"), found.lost("n1"), found.lost("n2")) == ("", A, A)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_record_tells_who_was_first(turn: int) -> None:
    """After a restart the operator knows what it wrote down, in whichever order it reads."""
    devices = [(publishes("n1", "a"), ["a"]), (publishes("n2", "a"), [])][::turn]

    found = known(*devices)

    assert (found.keeper("a"), found.lost("n2")) == ("n1", A)


def test_two_records_tell_nothing() -> None:
    """Whatever wrote the second one, nobody is believed."""
    found = known((publishes("n1", "a"), ["a"]), (publishes("n2", "a"), ["a"]))

    assert found.keeper("a") == ""


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("held", [frozenset[str](), A], ids=["no pod holds it", "a pod there holds it"])
def test_a_record_that_was_not_written_again_tells_who_came_back(turn: int, held: frozenset[str]) -> None:
    """However long ago n2 had the card of n1: both records stand, and that of n2 names n1 as the origin."""
    time = clock.Clock()
    time.advance(2 * uuid_ownership.REMEMBERED_SECONDS)
    taken = uuid_records.Record(A, origins={"a": uuid_records.Origin("n1", 0.0)})
    found = uuid_ownership.UuidOwnership(time, lambda node: held if node == "n2" else ())
    there = [("n1", uuid_records.Record(A), frozenset[str]()), ("n2", taken, held)]

    for node, record, pods in there[::turn]:
        found.publish(publishes(node, "a"), record, pods)
    found.ordered = True

    assert found.keeper("a") == ("" if held else "n1")
    assert found.record("n1").claims == {"a"}


def test_a_record_of_what_a_node_does_not_publish_counts_for_nothing() -> None:
    """A card that was moved to another node belongs to that one, once the first has let go of it."""
    found = known((publishes("n1", "a"), ["a"]), (publishes("n2"), ()))

    found.publish(publishes("n1"), uuid_records.Record(A))
    found.publish(publishes("n2", "a"))

    assert found.keeper("a") == "n2"


LEAVES = {
    "withdraws its Device": lambda found: found.withdraw("n1"),
    "publishes others": lambda found: found.publish(publishes("n1", "c")),
}


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("seen", ["in order", "as recorded"])
def test_who_published_what_was_anothers_does_not_inherit_it(leaves: str, seen: str) -> None:
    """A node may go and join anew: nobody has its cards meanwhile, and both hear of each change."""
    if seen == "in order":
        found = known((publishes("n1", "a"), ()))
        found.publish(publishes("n2", "a"))
    else:
        found = known((publishes("n1", "a"), ["a"]), (publishes("n2", "a"), ()))

    affected = LEAVES[leaves](found)

    assert "n2" in affected
    assert (found.keeper("a"), found.lost("n2"), found.kept("n2")) == ("", A, ())
    assert (found.contested("n2"), found.late("n2")) == ({}, A)


@pytest.mark.parametrize("leaves", LEAVES)
def test_a_node_that_joins_anew_has_its_cards_again(leaves: str) -> None:
    """However long it was away, for whoever else publishes them was too late already."""
    time = clock.Clock()
    found = known((publishes("n1", "a"), ()), time=time)
    found.publish(publishes("n2", "a"))

    LEAVES[leaves](found)
    time.advance(100 * uuid_ownership.REMEMBERED_SECONDS)
    affected = found.publish(publishes("n1", "a"))

    assert affected >= {"n1", "n2"}
    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]


@pytest.mark.parametrize("leaves", LEAVES)
def test_who_has_its_cards_again_was_not_late(leaves: str) -> None:
    """Nothing is said of a quarrel where there was none."""
    found = known((publishes("n1", "a"), ()))

    LEAVES[leaves](found)
    found.publish(publishes("n1", "a"))

    assert (found.late("n1"), found.lost("n1"), found.kept("n1")) == (frozenset(), frozenset(), ("a",))


def test_who_came_when_the_first_was_gone_was_not_late() -> None:
    """Nor is it once the one that was too late has withdrawn the card."""
    found = known((publishes("n1", "a"), ()))
    found.publish(publishes("n2", "a"))
    found.withdraw("n1")
    found.publish(publishes("n3", "a"))

    found.withdraw("n2")

    assert (found.keeper("a"), found.late("n3"), found.kept("n3")) == ("n3", frozenset(), ("a",))


def test_what_is_withdrawn_and_published_alone_belongs_to_the_node() -> None:
    """So a card that was moved in the wrong order is given out once the Device is made anew."""
    found = known((publishes("n1", "a"), ()))
    found.publish(publishes("n2", "a"))
    found.withdraw("n1")

    found.withdraw("n2")
    found.publish(publishes("n2", "a"))

    assert (found.keeper("a"), found.lost("n2")) == ("n2", frozenset())


def test_who_was_too_late_is_so_while_others_are_there() -> None:
    """Withdrawing a card and publishing it again beside another node gives it to neither."""
    found = known((publishes("n1", "a"), ()), (publishes("n2", "a"), ()))

    found.publish(publishes("n2"))
    found.publish(publishes("n2", "a"))

    assert found.keeper("a") == ""


def test_a_dispute_outlives_the_operator() -> None:
    """The node that had the card first is away, and the next operator finds the other one alone."""
    found = uuid_ownership.UuidOwnership()
    late = uuid_records.Record(frozenset("b"), A, {"a": uuid_records.Origin("n1")})
    found.publish(publishes("n2", "a", "b"), late)
    found.ordered = True
    alone = found.keeper("a"), found.lost("n2"), found.kept("n2")

    found.publish(publishes("n1", "a"))

    assert alone == ("", A, ("b",))
    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]


def test_a_dispute_of_another_time_takes_no_card() -> None:
    """What was seen counts, and not a record that comes late: the card was withdrawn meanwhile."""
    found = known((publishes("n2"), ()))

    found.publish(
        publishes("n2", "a"), uuid_records.Record(disputed=A, origins={"a": uuid_records.Origin("n1")})
    )

    assert found.keeper("a") == "n2"


@pytest.mark.parametrize(
    ("away", "keeper"),
    [
        pytest.param(uuid_ownership.REMEMBERED_SECONDS - 1, "n1", id="a while"),
        pytest.param(uuid_ownership.REMEMBERED_SECONDS, "n2", id="longer than is remembered"),
    ],
)
def test_a_node_gets_back_what_was_away_for_a_while(away: float, keeper: str) -> None:
    """A card falls off the bus, and turns up elsewhere: that node has it until the first publishes it."""
    time = clock.Clock()
    found = known((publishes("n1", "a"), ()), time=time)
    found.publish(publishes("n1"))
    found.publish(publishes("n2", "a"))
    meanwhile = found.keeper("a")

    time.advance(away)
    affected = found.publish(publishes("n1", "a"))

    assert (meanwhile, found.keeper("a")) == ("n2", keeper)
    assert affected == {"n1", "n2"}


def test_the_first_who_withdrew_a_card_may_come_back_for_it() -> None:
    """Who takes it meanwhile and withdraws it again has earned nothing by that."""
    found = known((publishes("n1", "a"), ()))
    found.withdraw("n1")
    found.publish(publishes("n2", "a"))
    found.withdraw("n2")

    found.publish(publishes("n1", "a"))
    found.publish(publishes("n2", "a"))

    assert found.keeper("a") == "n1"


def test_one_node_alone_cannot_make_many_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each node only its last ones count, and after a day none: what nobody claims takes no memory."""
    monkeypatch.setattr(uuid_ownership, "MOST_LEFT", 3)
    time = clock.Clock()
    found = known((publishes("n1", "a"), ()), time=time)
    found.withdraw("n1")

    for at in range(1000):
        found.publish(publishes("n2", f"u{at}"))
    found.withdraw("n2")
    count = len(found)
    found.publish(publishes("n3", "a", "u996", "u999"))
    found.publish(publishes("n2", "u996", "u999"))
    kept = found.kept("n2")
    found.withdraw("n2")
    found.withdraw("n3")
    time.advance(uuid_ownership.REMEMBERED_SECONDS)
    found.publish(publishes("n4"))

    assert (count, kept, len(found)) == (4, ("u999",), 0)


def test_an_instance_is_as_unique_as_a_card() -> None:
    """MIG instances have uuids of their own."""
    found = known((publishes("n1", "a", instances=["m"]), ()))

    found.publish(publishes("n2", "b", instances=["m"]))

    assert (found.keeper("m"), found.lost("n2")) == ("n1", frozenset("m"))


def test_a_node_keeps_its_claim_to_what_a_pod_on_it_holds() -> None:
    """A card that turns up elsewhere while its pod lives is given there only when the pod has ended."""
    found = known((publishes("n1", "a"), ()))

    found.publish(publishes("n1"), held=A)
    found.publish(publishes("n2", "a"))
    held = found.lost("n2"), found.contested("n2"), found.kept("n1")
    affected = found.hold("n1", ())

    assert held == (A, {"a": ("n1",)}, ())
    assert affected == {"n2"}
    assert (found.lost("n2"), found.kept("n2")) == (frozenset(), ("a",))


def test_a_claim_by_a_pod_outlives_the_device() -> None:
    """A Device may be deleted and published again: who came meanwhile comes second."""
    found = known((publishes("n1", "a"), ()))

    found.withdraw("n1", A)
    found.publish(publishes("n2", "a"))
    found.publish(publishes("n1", "a"), held=A)
    found.hold("n1", ())

    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]


def test_what_a_pod_elsewhere_holds_is_given_to_nobody_after_a_restart() -> None:
    """Nobody saw whether the pod was first there."""
    found = known((publishes("n2", "a"), ()))
    found.ordered = False

    found.hold("n1", A)

    assert (found.keeper("a"), found.lost("n2")) == ("", A)


def test_a_hold_takes_no_card_from_the_node_that_published_it_first() -> None:
    """A pod may claim to hold anything."""
    found = known((publishes("n2", "a"), ()))

    found.hold("n1", A)

    assert (found.keeper("a"), found.lost("n2")) == ("n2", frozenset())


UUIDS = st.frozensets(st.sampled_from("abc"))
SAID = st.none() | UUIDS | st.tuples(UUIDS, UUIDS)  # A Device goes, pods hold, or a Device is published.
STEPS = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), SAID))


@hypothesis.given(STEPS)
def test_a_uuid_has_at_most_one_keeper_and_changes_are_told(steps: list[tuple[str, Any]]) -> None:
    """Whatever is published and taken back, one node at most gives a uuid, and whom it concerns hears."""
    found = uuid_ownership.UuidOwnership()
    found.ordered = True
    nodes = ("n1", "n2", "n3")
    held = dict.fromkeys(nodes, frozenset[str]())
    for node, said in steps:
        before = {one: (found.lost(one), found.contested(one)) for one in nodes}
        match said:
            case None:
                affected = found.withdraw(node, held[node]) | {node}
            case frozenset():
                held[node] = said
                affected = found.hold(node, said)
            case (uuids, recorded):
                record = uuid_records.Record(recorded)
                affected = found.publish(publishes(node, *sorted(uuids)), record, held[node])
            case _:
                raise AssertionError(said)
        after = {one: (found.lost(one), found.contested(one)) for one in nodes}

        assert {one for one in nodes if before[one] != after[one]} <= affected
        for uuid in "abc":
            givers = [one for one in nodes if uuid in found.of(one) and uuid not in found.lost(one)]
            assert len(givers) <= 1
            keeper = found.keeper(uuid)
            assert givers == ([keeper] if uuid in found.of(keeper) else [])
