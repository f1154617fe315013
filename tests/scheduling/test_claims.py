"""Each uuid belongs to one node, whoever else publishes it: the first that was seen, or is recorded."""

from collections.abc import Iterable

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import claims
from berth_operator.scheduling.devices import facts
from support import builders

A = frozenset("a")


def publishes(node: str, *uuids: str, instances: Iterable[str] = ()) -> facts.Device:
    """Give a node with these cards, the first of which is cut into these instances."""
    found = tuple(
        facts.Instance(uuid, builders.PROFILE, builders.GIB, at) for at, uuid in enumerate(instances)
    )
    cards = [
        facts.Card(uuid, at, builders.MODEL, builders.MEMORY, instances=found if at == 0 else ())
        for at, uuid in enumerate(uuids)
    ]
    return builders.device(node, cards)


def known(*devices: tuple[facts.Device, Iterable[str]]) -> claims.Claims:
    """Give what is known after all Devices were read once, in whatever order the server lists them."""
    found = claims.Claims()
    for device, recorded in devices:
        found.publish(device, recorded)
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


def test_a_record_of_what_a_node_does_not_publish_counts_for_nothing() -> None:
    """A card that was moved to another node belongs to that one, once the first has let go of it."""
    found = known((publishes("n1", "a"), ["a"]), (publishes("n2"), ()))

    found.publish(publishes("n1"), ["a"])
    found.publish(publishes("n2", "a"))

    assert found.keeper("a") == "n2"


@pytest.mark.parametrize("leaves", ["withdraws it", "publishes others"])
def test_who_is_left_alone_has_it(leaves: str) -> None:
    """The end of a quarrel is told to those who were in it."""
    found = known((publishes("n1", "a"), ()), (publishes("n2", "a"), ()))

    affected = found.withdraw("n1") if leaves == "withdraws it" else found.publish(publishes("n1", "c"))

    assert "n2" in affected
    assert (found.keeper("a"), found.lost("n2"), found.contested("n2")) == ("n2", frozenset(), {})


def test_an_instance_is_as_unique_as_a_card() -> None:
    """MIG instances have uuids of their own."""
    found = known((publishes("n1", "a", instances=["m"]), ()))

    found.publish(publishes("n2", "b", instances=["m"]))

    assert (found.keeper("m"), found.lost("n2")) == ("n1", frozenset("m"))


def test_a_record_is_news_once() -> None:
    """What the operator writes into a Device comes back to it and must not start anything."""
    found = known((publishes("n1", "a"), ()))

    before = found.recorded("n1", ["a", "of another time"])
    found.publish(publishes("n1", "a"), ["a"])

    assert (before, found.recorded("n1", ["a"]), found.recorded("n1", ["a", "of another time"])) == (
        True,
        False,
        False,
    )


UUIDS = st.frozensets(st.sampled_from("abc"))
STEPS = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.none() | st.tuples(UUIDS, UUIDS)))


@hypothesis.settings(deadline=None)
@hypothesis.given(STEPS)
def test_a_uuid_has_at_most_one_keeper_and_changes_are_told(steps: list[tuple[str, object]]) -> None:
    """Whatever is published and taken back, one node at most gives a uuid, and whom it concerns hears."""
    found = claims.Claims()
    found.ordered = True
    nodes = ("n1", "n2", "n3")
    for node, said in steps:
        before = {one: (found.lost(one), found.contested(one)) for one in nodes}
        if said is None:
            affected = found.withdraw(node) | {node}
        else:
            assert isinstance(said, tuple)
            affected = found.publish(publishes(node, *sorted(said[0])), said[1])
        after = {one: (found.lost(one), found.contested(one)) for one in nodes}

        assert {one for one in nodes if before[one] != after[one]} <= affected
        for uuid in "abc":
            givers = [one for one in nodes if uuid in found.of(one) and uuid not in found.lost(one)]
            assert len(givers) <= 1
            assert givers == ([found.keeper(uuid)] if found.keeper(uuid) else [])
