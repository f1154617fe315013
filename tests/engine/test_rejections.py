"""A node that rejects its pods again and again is quarantined: longer each time, and until it admits one."""

from berth_operator.engine import rejections
from berth_operator.engine.rejections import FIRST_SECONDS, FORGOTTEN_SECONDS, LONGEST_SECONDS, MOST_IN_A_ROW

WHY = "UnexpectedAdmissionError"


def reject(kept: rejections.Rejections, times: int, now: float = 0.0, node: str = "n1") -> list[str]:
    """Have a node reject so many pods, and return what each leads to."""
    return [kept.rejected(node, WHY, now) for _ in range(times)]


def test_some_in_a_row_lead_to_a_quarantine() -> None:
    """The reason says how many and why; other nodes have nothing to do with it."""
    kept = rejections.Rejections()

    assert reject(kept, MOST_IN_A_ROW - 1) == [""] * (MOST_IN_A_ROW - 1)
    assert reject(kept, 1, node="n2") == [""]
    assert reject(kept, 1) == [f"its kubelet rejected 3 pods in a row: {WHY}"]
    assert list(kept.ended(FIRST_SECONDS - 0.1)) == []
    assert list(kept.ended(FIRST_SECONDS)) == ["n1"]
    assert list(kept.ended(FIRST_SECONDS)) == []


def test_an_admitted_pod_ends_it_and_is_a_new_beginning() -> None:
    """It takes as many rejections as before."""
    kept = rejections.Rejections()
    reject(kept, MOST_IN_A_ROW)

    assert kept.admitted("n1")
    assert not kept.admitted("n1")
    assert list(kept.ended(1e9)) == []
    assert reject(kept, MOST_IN_A_ROW - 1) == [""] * (MOST_IN_A_ROW - 1)
    assert not kept.admitted("n1"), "it was not quarantined"


def test_each_quarantine_is_longer_than_the_last() -> None:
    """After a pod on trial that is rejected as well, up to a limit."""
    kept, now, lengths = rejections.Rejections(), 0.0, []
    reject(kept, MOST_IN_A_ROW - 1)

    for _ in range(8):
        (why,) = reject(kept, 1, now)
        assert why
        began = now
        while not list(kept.ended(now)):
            now += 1.0
        lengths.append(now - began)

    assert lengths == [60, 120, 240, 480, 960, *[LONGEST_SECONDS] * 3]


def test_what_was_long_ago_does_not_count() -> None:
    """Nor does what a node did that is gone."""
    kept = rejections.Rejections()
    reject(kept, MOST_IN_A_ROW - 1)

    assert reject(kept, 1, FORGOTTEN_SECONDS + FIRST_SECONDS + 1) == [""]
    reject(kept, MOST_IN_A_ROW - 1, node="n2")
    kept.keep_only({"n1"})
    assert reject(kept, 1, node="n2") == [""]
