"""Who of a namespace is asked about next."""

import dataclasses

from berth_operator.engine import dry_run_queue
from berth_operator.scheduling import decisions
from support import builders

SOMEWHERE = decisions.Placement("n1")


def asked(*pods: tuple[str, int, int]) -> list[str]:
    """Return the order in which pods are asked about, given by name, cards and priority."""
    queue = dry_run_queue.DryRunQueue()
    for name, cards, priority in pods:
        candidate = dataclasses.replace(builders.candidate(name, cards=cards), priority=priority)
        queue.push(dry_run_queue.DryRun(candidate, SOMEWHERE))
    found = [queue.pop().candidate.name for _ in pods]
    assert not queue
    return found


def test_the_first_and_the_last_of_a_kind_come_in_turns() -> None:
    """So neither those that are old nor those that are new wait for all others."""
    assert asked(*((f"p{at}", 1, 0) for at in range(5))) == ["p0", "p4", "p1", "p3", "p2"]


def test_each_kind_has_its_turn() -> None:
    """Pods that ask for something else, or are of another importance, may get another answer."""
    crowd = [(f"p{at}", 1, 0) for at in range(4)]
    assert asked(*crowd, ("large", 2, 0), ("important", 1, 5))[:3] == ["p0", "large", "important"]
    assert asked(*crowd, ("large", 2, 0), ("huge", 4, 0))[3:] == ["p3", "p1", "p2"]
