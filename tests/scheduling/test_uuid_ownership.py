"""Each uuid belongs to one node, whoever else publishes it: the first that was seen, or is recorded."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Final
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import uuid_ownership, uuid_records
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.uuid_ownership import UuidOwnership
from support import builders, clock

A: Final = frozenset("a")
NODES: Final = ("n1", "n2", "n3")


def publishes(node: str, *uuids: str, instances: Iterable[str] = ()) -> device_facts.Device:
    """Return a node with these cards, the first of which is cut into these instances."""
    cut = tuple(device_facts.Instance(uuid, builders.PROFILE, builders.GIB) for uuid in instances)
    cards = [builders.card(at, uuid=uuid, instances=() if at else cut) for at, uuid in enumerate(uuids)]
    return builders.device(node, cards)


def known(
    *devices: device_facts.Device, recorded: Iterable[str] = (), time: Callable[[], float] = float
) -> UuidOwnership:
    """Return what is known once all Devices were read; these uuids are recorded as those of the first."""
    found = UuidOwnership(time)
    for at, device in enumerate(devices):
        found.publish(device, uuid_records.Record(frozenset() if at else frozenset(recorded)))
    found.ordered = True
    return found


def test_the_first_that_was_seen_keeps_it() -> None:
    """A later claim is not given, and changes nothing for the first but that both are told."""
    found = known(publishes("n1", "a"))

    affected = found.publish(publishes("n2", "a", "b"))

    assert affected == {"n1", "n2"}
    assert [found.kept(node) for node in ("n1", "n2")] == [("a",), ("b",)]
    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]
    assert [found.contested(node) for node in ("n1", "n2")] == [{"a": ("n2",)}, {"a": ("n1",)}]


def test_a_claim_too_many_costs_little() -> None:
    """Of each uuid that another node publishes as well, what is known is written once."""
    many = [f"u{at}" for at in range(500)]
    found = known(publishes("n1", *many))

    with (
        mock.patch.object(uuid_ownership, "UuidHistory", wraps=uuid_records.UuidHistory) as made,
        mock.patch.object(dataclasses, "replace", wraps=dataclasses.replace) as replaced,
    ):
        found.publish(publishes("n2", *many))

    assert made.call_count + replaced.call_count == len(many)


def test_two_records_tell_nothing() -> None:
    """Whatever wrote the second one, nobody is believed."""
    found = UuidOwnership()
    for node in ("n1", "n2"):
        found.publish(publishes(node, "a"), uuid_records.Record(A))

    assert found.keeper("a") == ""


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("held", [frozenset[str](), A], ids=["no pod holds it", "a pod there holds it"])
def test_a_record_that_was_not_written_again_tells_who_came_back(turn: int, held: frozenset[str]) -> None:
    """However long ago n2 had the card of n1: both records stand, and that of n2 names n1 as the origin."""
    time = clock.Clock(2 * uuid_ownership.REMEMBERED_SECONDS)
    taken = uuid_records.Record(A, origins={"a": uuid_records.Origin("n1", 0.0)})
    found = UuidOwnership(time, lambda node: held if node == "n2" else ())
    there = [("n1", uuid_records.Record(A), frozenset[str]()), ("n2", taken, held)]

    for node, record, pods in there[::turn]:
        found.publish(publishes(node, "a"), record, pods)

    assert found.keeper("a") == ("" if held else "n1")
    assert found.record("n1").claims == {"a"}


def test_a_record_of_what_a_node_does_not_publish_counts_for_nothing() -> None:
    """A card that was moved to another node belongs to that one, once the first has let go of it."""
    found = known(publishes("n1", "a"), publishes("n2"), recorded="a")

    found.publish(publishes("n1"), uuid_records.Record(A))
    found.publish(publishes("n2", "a"))

    assert found.keeper("a") == "n2"


def test_a_dispute_of_another_time_takes_no_card() -> None:
    """What was seen counts, and not a record that comes late: the card was withdrawn meanwhile."""
    found = known(publishes("n2"))

    found.publish(
        publishes("n2", "a"), uuid_records.Record(disputed=A, origins={"a": uuid_records.Origin("n1")})
    )

    assert found.keeper("a") == "n2"


def test_a_dispute_outlives_the_operator() -> None:
    """The node that had the card first is away, and the next operator finds the other one alone."""
    found = UuidOwnership()
    found.publish(
        publishes("n2", "a", "b"), uuid_records.Record(frozenset("b"), A, {"a": uuid_records.Origin("n1")})
    )
    found.ordered = True
    alone = found.keeper("a"), found.lost("n2"), found.kept("n2")

    found.publish(publishes("n1", "a"))

    assert alone == ("", A, ("b",))
    assert [found.lost(node) for node in ("n1", "n2")] == [frozenset(), A]


# What nodes publish one after the other, None where the Device goes; and who was too late for its card.
LATE: Final[dict[str, tuple[list[tuple[str, str | None]], list[str]]]] = {
    "who publishes what is another's, once that one has gone": (
        [("n1", "a"), ("n2", "a"), ("n1", None)],
        ["n2"],
    ),
    "or once it publishes other cards": ([("n1", "a"), ("n2", "a"), ("n1", "c")], ["n2"]),
    "nobody, where the node comes back for its card": ([("n1", "a"), ("n1", None), ("n1", "a")], []),
    "nor where the node publishes it again": ([("n1", "a"), ("n1", "c"), ("n1", "a")], []),
    "nor who came when the first was gone": (
        [("n1", "a"), ("n2", "a"), ("n1", None), ("n3", "a"), ("n2", None)],
        [],
    ),
}


@pytest.mark.parametrize(("published", "late"), LATE.values(), ids=LATE)
def test_who_was_too_late(published: list[tuple[str, str | None]], late: list[str]) -> None:
    """It is told so, and nothing is said of a quarrel where there was none."""
    found = known()

    for node, uuid in published:
        if uuid is None:
            found.withdraw(node)
        else:
            found.publish(publishes(node, uuid))

    assert [node for node in NODES if found.late(node)] == late


def test_one_node_alone_cannot_make_many_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each node only its last ones count, and after a day none: what nobody claims takes no memory."""
    monkeypatch.setattr(uuid_ownership, "MOST_LEFT", 3)
    time = clock.Clock()
    found = known(publishes("n1", "a"), time=time)
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
    found = known(publishes("n1", "a", instances=["m"]), publishes("n2", "b", instances=["m"]), recorded="m")

    assert (found.keeper("m"), found.lost("n2")) == ("n1", frozenset("m"))


def test_the_end_of_a_pod_is_told_to_the_heir_of_its_card_alone() -> None:
    """The node on which it ran has nothing to do with the card any more."""
    found = known(publishes("n1", "a"))
    found.publish(publishes("n1"), held=A)
    found.publish(publishes("n2", "a"))

    assert found.hold("n1", ()) == {"n2"}


def test_a_hold_takes_no_card_from_the_node_that_published_it_first() -> None:
    """A pod may claim to hold anything."""
    found = known(publishes("n2", "a"))

    found.hold("n1", A)

    assert (found.keeper("a"), found.lost("n2")) == ("n2", frozenset())


UUIDS = st.frozensets(st.sampled_from("abc"))
# A Device goes, pods hold, or a Device is published.
STEPS = st.lists(st.tuples(st.sampled_from(NODES), st.none() | UUIDS | st.tuples(UUIDS, UUIDS)))


@hypothesis.given(STEPS)
def test_a_uuid_has_at_most_one_keeper_and_changes_are_told(steps: list[tuple[str, Any]]) -> None:
    """Whatever is published and taken back, one node at most gives a uuid, and whom it concerns hears."""
    found = known()
    held = dict.fromkeys(NODES, frozenset[str]())
    for node, step in steps:
        before = {one: (found.lost(one), found.contested(one)) for one in NODES}
        match step:
            case None:
                affected = found.withdraw(node, held[node]) | {node}
            case (uuids, recorded):
                record = uuid_records.Record(recorded)
                affected = found.publish(publishes(node, *sorted(uuids)), record, held[node])
            case _:
                held[node] = step
                affected = found.hold(node, step)

        assert {one for one in NODES if before[one] != (found.lost(one), found.contested(one))} <= affected
        for uuid in "abc":
            givers = [one for one in NODES if uuid in found.of(one) and uuid not in found.lost(one)]
            keeper = found.keeper(uuid)
            assert givers == ([keeper] if uuid in found.of(keeper) else [])
