"""GpuPods that are to be read again: none is forgotten, and no node waits for those of another."""

from berth_operator.engine import late_gpupods


def stage(*titles: str) -> late_gpupods.LateGpuPods:
    """Return late GpuPods, each of the node that its namespace is called after."""
    late = late_gpupods.LateGpuPods()
    for title in titles:
        late.add(title.partition("/")[0], title)
    return late


def read_in_order(late: late_gpupods.LateGpuPods, count: int) -> list[str]:
    """Return the titles of the next ones."""
    return ["/".join(late.next() or ()) for _ in range(count)]


def test_nodes_take_turns_and_so_do_the_gpupods_of_a_node() -> None:
    """One that could not be read comes again when all others of its node were tried."""
    late = stage("a/1", "a/2", "a/3", "b/1")

    assert read_in_order(late, 6) == ["a/1", "b/1", "a/2", "b/1", "a/3", "b/1"]


def test_what_was_read_does_not_come_again() -> None:
    """Nor does one that was removed before."""
    late = stage("a/1", "a/2", "b/1")

    late.remove("a/1")
    late.remove("b/1")

    assert read_in_order(late, 2) == ["a/2", "a/2"]
    late.remove("a/2")
    assert late.next() is None
    assert repr(late) == "<LateGpuPods: 0 of 0 nodes>"


def test_a_gpupod_that_was_made_again_for_another_node_is_of_that() -> None:
    """It is there once."""
    late = stage("a/1")

    late.add("b", "a/1")

    assert repr(late) == "<LateGpuPods: 1 of 1 nodes>"
    late.remove("a/1")
    assert late.next() is None
