"""Objects that are to be read again: none is forgotten, and no writer waits for those of another."""

from berth_operator.engine import late_objects


def stage(*titles: str) -> late_objects.LateObjects:
    """Return late objects, each written by whom its namespace is called after."""
    late = late_objects.LateObjects()
    for title in titles:
        add(late, title)
    return late


def add(late: late_objects.LateObjects, title: str, writer: str = "") -> None:
    """Add an object."""
    namespace, _, name = title.partition("/")
    late.add(writer or namespace, title, (namespace, name))


def read_in_order(late: late_objects.LateObjects, count: int) -> list[str]:
    """Return the titles of the next ones."""
    return ["/".join(late.next() or ()) for _ in range(count)]


def test_writers_take_turns_and_so_do_the_objects_of_each() -> None:
    """One that could not be read comes again when all others of its writer were tried."""
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
    assert repr(late) == "<LateObjects: 0 of 0 writers>"


def test_an_object_that_another_has_made_again_is_of_that() -> None:
    """It is there once."""
    late = stage("a/1")

    add(late, "a/1", writer="b")

    assert repr(late) == "<LateObjects: 1 of 1 writers>"
    late.remove("a/1")
    assert late.next() is None
