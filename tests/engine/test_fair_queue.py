"""Names take turns, each with its oldest thing first, and leave nothing behind."""

from berth_operator.engine import fair_queue


def of(text: str) -> fair_queue.FairQueue[str]:
    """Queue things such as a1: the first one of a."""
    queue = fair_queue.FairQueue[str]()
    for thing in text.split():
        queue.push(thing[0], thing)
    return queue


def test_names_take_turns() -> None:
    """Whoever has many things delays only his own, and who comes late waits for one turn of each other."""
    queue = of("a1 a2 a3 a4 b1 b2")

    first = queue.pop_many(2)
    queue.push("c", "c1")

    assert [*first, *queue.pop_many(9)] == ["a1", "b1", "a2", "b2", "c1", "a3", "a4"]
    assert len(queue) == 0


def test_what_is_put_back_comes_first() -> None:
    """Before what else there is of its name, and before other names."""
    queue = of("a1 a2 b1")
    found = queue.pop()

    queue.put_back("a", found)

    assert queue.pop_many(3) == ["a1", "b1", "a2"]


def test_who_has_most_loses_the_oldest() -> None:
    """However far in front of the others it was."""
    queue = of("a1 b1 b2 b3 c1")

    dropped = [queue.drop(), queue.drop()]

    assert dropped == ["b1", "b2"]
    assert queue.pop_many(9) == ["a1", "b3", "c1"]


def test_a_replacement_leaves_everybody_his_turn() -> None:
    """Names go on where they were, whatever there is of them now; who is new comes after them."""
    queue = of("a1 a2 b1 b2 c1 c2 d1")
    queue.pop_many(1)

    queue.replace([("n", "n1"), ("a", "a5"), ("c", "c5"), ("b", "b5")])

    assert len(queue) == 4
    assert queue.pop_many(9) == ["b5", "c5", "a5", "n1"]


def test_names_of_which_nothing_waits_are_forgotten() -> None:
    """Whether their things were taken, dropped or replaced."""
    taken, dropped, replaced = of("a1 b1"), of("a1"), of("a1 b1")

    taken.pop_many(1)
    dropped.drop()
    replaced.replace([("b", "b2")])

    assert [list(one._items) for one in (taken, dropped, replaced)] == [["b"], [], ["b"]]
