"""What was told since the last look is known without looking at all."""

from berth_operator.engine import pod_revisions


def test_what_was_told_since_is_fresh_until_the_newest_is_asked_for() -> None:
    """A pod that is told of again is fresh again; one that is dropped is neither."""
    known = pod_revisions.PodRevisions()
    for uid, text in (("a", "7"), ("b", "9"), ("c", "8")):
        known[uid] = pod_revisions.Revision.of(text)
    known.remove("b")
    first = set(known.changed)

    newest = known.take_newest()
    after = set(known.changed)
    known["a"] = pod_revisions.Revision.of("10")

    assert (first, newest, after) == ({"a", "c"}, 8, set())
    assert known.changed == {"a"}
    assert known.take_newest() == 10


def test_nothing_known_is_as_old_as_can_be() -> None:
    """Without any pod the newest revision is none."""
    assert pod_revisions.PodRevisions().take_newest() == 0


def test_who_is_dropped_twice_is_dropped() -> None:
    """Pods go whose revision was never known."""
    known = pod_revisions.PodRevisions()

    known.remove("a")

    assert not known
    assert not known.changed
