"""Which nodes and pods have changed since somebody looked last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_operator.engine import pod_revisions
from berth_operator.engine.change_log import ChangeLog

NODES = ("a", "b", "c", "d", "e")
# A change of a node, or that reader 0 or 1 reads.
STEPS = st.lists(st.one_of(st.sampled_from(NODES), st.integers(0, 1)), max_size=40)


@given(most=st.integers(1, 6), steps=STEPS)
def test_a_reader_that_applies_the_changes_ends_with_the_same_as_one_that_reads_everything(
    most: int, steps: list[str | int]
) -> None:
    """However small the log is, however often others read, and whether nodes come or go."""
    log, nodes = ChangeLog(most), dict[str, int]()
    readers = [(log.reader(), dict[str, int]()) for _ in range(2)]

    for moment, step in enumerate([*steps, 0, 1]):
        if isinstance(step, str):
            if moment % 3:
                nodes[step] = moment
            else:
                nodes.pop(step, None)
            log.record(step)
            continue
        reader, copy = readers[step]
        changed = reader.read()
        for node in NODES if changed is None else changed:
            copy.pop(node, None)
            copy |= {node: nodes[node]} if node in nodes else {}
        assert copy == nodes


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param("", set(), id="nothing"),
        pytest.param("aba", {"a", "b"}, id="each node once"),
        pytest.param("cc" * 9, {"c"}, id="one node again and again"),
        pytest.param("abc", {"a", "b", "c"}, id="as many nodes as are kept"),
        pytest.param("abcd", None, id="more nodes than are kept"),
        pytest.param("abcda", None, id="a dropped node again"),
    ],
)
def test_a_reader_is_told_what_changed_since_it_last_read(changes: str, found: set[str] | None) -> None:
    """Each change is told once; a reader that has fallen behind must read everything."""
    log = ChangeLog(3)
    log.record_all("xy")
    reader = log.reader()
    assert reader.read() is None, "it has read nothing yet"

    log.record_all(changes)

    assert [reader.read(), reader.read()] == [found, set()]


def test_the_log_is_bounded_and_tells_its_state() -> None:
    """Nodes that come and go under new names do not fill the memory."""
    log = ChangeLog(3)

    log.record_all(f"n{number}" for number in range(100))

    assert repr(log) == "<ChangeLog: 3 nodes, revision 100>"


# ---------------------------------------------------------------- revisions of pods


def test_pods_that_came_or_changed_are_known_until_the_newest_revision_is_asked_for() -> None:
    """A pod that is seen again is changed again; one that is dropped, even if it was never known, is not."""
    known = pod_revisions.PodRevisions()
    assert known.take_newest() == 0, "nothing known is as old as can be"
    for uid, text in (("a", "7"), ("b", "9"), ("c", "8")):
        known[uid] = pod_revisions.Revision.of(text)
    for uid in ("b", "unknown"):
        known.remove(uid)
    first = set(known.changed)

    newest = known.take_newest()
    after = set(known.changed)
    known["a"] = pod_revisions.Revision.of("10")

    assert (first, newest, after, known.changed) == ({"a", "c"}, 8, set(), {"a"})
    assert known.take_newest() == 10
