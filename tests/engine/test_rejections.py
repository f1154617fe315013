"""A node that rejects pods again and again is quarantined: longer each time, and until it admits one."""

import pytest

from berth_operator.engine import rejections
from berth_operator.engine.rejections import FIRST_SECONDS, FORGOTTEN_SECONDS, LONGEST_SECONDS, MOST_IN_A_ROW

WHY = "UnexpectedAdmissionError"


@pytest.fixture
def kept() -> rejections.Rejections:
    """Lend rejections, of which none is known yet."""
    return rejections.Rejections()


def reject(
    kept: rejections.Rejections, times: int, now: float = 0.0, *, node: str = "n1", namespace: str = "ml"
) -> rejections.Quarantine | None:
    """Have a node reject so many pods of a namespace, and return to what quarantine that leads."""
    for _ in range(times):
        kept.rejected(node, namespace, WHY, now)
    return kept.quarantine(node)


def test_some_in_a_row_lead_to_a_quarantine(kept: rejections.Rejections) -> None:
    """The reason says how many and why; other nodes have nothing to do with it."""
    assert reject(kept, MOST_IN_A_ROW - 1) is None
    assert reject(kept, 1, node="n2") is None
    assert reject(kept, 1) == (f"its kubelet rejected 3 pods in a row: {WHY}", "ml")
    assert kept.quarantine("n2") is None
    assert list(kept.end(FIRST_SECONDS - 0.1)) == []
    assert list(kept.end(FIRST_SECONDS)) == ["n1"]
    assert list(kept.end(FIRST_SECONDS)) == []
    assert kept.quarantine("n1") is None


def test_one_namespace_suffers_alone_and_two_mean_all(kept: rejections.Rejections) -> None:
    """Until one of the two has had a pod admitted, or its time is over."""
    attackers = reject(kept, 100, now=1.0, namespace="attacker")
    assert attackers == (f"its kubelet rejected 100 pods in a row: {WHY}", "attacker")
    assert reject(kept, MOST_IN_A_ROW - 1, now=2.0) == attackers

    assert reject(kept, 1, now=3.0) == (f"its kubelet rejected 3 pods in a row: {WHY}", "")
    kept.admitted("n1", "ml")
    assert kept.quarantine("n1") == attackers
    assert reject(kept, MOST_IN_A_ROW, now=4.0) != attackers
    assert list(kept.end(4.0 + FIRST_SECONDS)) == ["n1"]
    assert kept.quarantine("n1") == attackers


def test_an_admitted_pod_ends_it_and_is_a_new_beginning(kept: rejections.Rejections) -> None:
    """It takes as many rejections as before; a pod of another namespace ends nothing."""
    reject(kept, MOST_IN_A_ROW)

    kept.admitted("n1", "other")
    assert kept.quarantine("n1")
    kept.admitted("n1", "ml")
    kept.admitted("n1", "ml")
    assert kept.quarantine("n1") is None
    assert list(kept.end(1e9)) == []
    assert reject(kept, MOST_IN_A_ROW - 1) is None


def test_each_quarantine_is_longer_than_the_last(kept: rejections.Rejections) -> None:
    """After a pod on trial that is rejected as well, up to a limit."""
    now, lengths = 0.0, []
    reject(kept, MOST_IN_A_ROW - 1)

    for _ in range(8):
        assert reject(kept, 1, now)
        began = now
        while not list(kept.end(now)):
            now += 1.0
        lengths.append(now - began)

    assert lengths == [60, 120, 240, 480, 960, *[LONGEST_SECONDS] * 3]


def test_what_was_long_ago_does_not_count(kept: rejections.Rejections) -> None:
    """Nor does what a node did that is gone."""
    reject(kept, MOST_IN_A_ROW - 1)

    assert reject(kept, 1, FORGOTTEN_SECONDS + FIRST_SECONDS + 1) is None
    reject(kept, MOST_IN_A_ROW - 1, node="n2")
    kept.keep_only({"n1"})
    assert reject(kept, 1, node="n2") is None
