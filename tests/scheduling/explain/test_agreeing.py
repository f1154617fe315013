"""Whether what a pod shows already says what the counts say, whoever wrote it and however long it is."""

import time

import pytest

from berth_operator.scheduling import explain
from berth_operator.scheduling.decisions import Count, Reason
from scheduling.explain import scenes

FULL = Count(Reason.FULL, "", 2)
CORDONED = Count(Reason.UNSCHEDULABLE, "", 1)
UNDECIDED = Count(Reason.UNDECIDED, "", 1)
POD = scenes.cards()
SECONDS = 3.0  # Far more than it takes; to try all ways takes ages.

AGREEING = [
    pytest.param(
        "0/3 nodes are available: 2 have no free card; 1 is cordoned", (FULL, CORDONED), id="the same"
    ),
    pytest.param(
        "0/3 nodes are available: 2 have no free card (nearest: n1 has 1 card free, 2 wanted); 1 is cordoned"
        ". Would fit if n2 were uncordoned.",
        (FULL, CORDONED),
        id="the same, and more",
    ),
    pytest.param(
        "0/3 nodes are available: 3 have no free card. Would fit if …", (FULL, UNDECIDED), id="decided before"
    ),
]
CONTRADICTING = [
    pytest.param("0/3 nodes are available: 2 have no free card.", (FULL, CORDONED), id="less"),
    pytest.param("0/2 nodes are available: 2 have no free card; 1 is cordoned.", (FULL,), id="too much"),
    pytest.param("0/2 nodes are available: 2 have no free cardboard", (FULL,), id="another word"),
    pytest.param("", (FULL,), id="nothing"),
    pytest.param("0/2 nodes are available.", (FULL,), id="of somebody else"),
    pytest.param("0/4 nodes are available: 4 have no free card", (FULL, UNDECIDED), id="of other nodes"),
]


@pytest.mark.parametrize(("said", "counts"), AGREEING)
def test_what_is_said_besides_is_no_matter(said: str, counts: tuple[Count, ...]) -> None:
    """The nearest and what would help may stand between and after the counts."""
    assert explain.agrees(said, counts, POD)


@pytest.mark.parametrize(("said", "counts"), CONTRADICTING)
def test_other_counts_are_contradicted(said: str, counts: tuple[Count, ...]) -> None:
    """Each count must be there, and no other."""
    assert not explain.agrees(said, counts, POD)


def test_what_is_no_sentence_of_ours_takes_no_time() -> None:
    """A condition may be long, and written by anybody: it is not searched for what it might say."""
    reasons = (Reason.FULL, Reason.UNSCHEDULABLE, Reason.SILENT, Reason.MIG_MODE, Reason.EXCLUDED)
    counts = tuple(Count(reason, "", 1) for reason in reasons)
    first, *parts = explain.brief(counts, POD).split("; ")
    said = f"{first} ({''.join(f'); {part} (' * 100 for part in parts)}x"

    assert not explain.agrees(said, counts, POD)


def test_every_reason_agrees_with_its_own_words() -> None:
    """What is made of counts agrees with them, also where there are too many for a sentence."""
    counts = tuple(Count(reason, "", 2) for reason in Reason if reason is not Reason.NO_NODES)

    assert explain.agrees(explain.brief(counts, POD), counts, POD)
    for one in counts:
        assert explain.agrees(explain.brief((one,), POD), (one,), POD), one


def test_what_a_pod_shows_is_read_in_a_moment() -> None:
    """Anybody may have written it: no text, however contrived, is tried in all ways."""
    counts = tuple(Count(Reason.INSUFFICIENT_RESOURCE, name, 1) for name in "abcdefgh")
    said = explain.brief(counts, POD)
    parts = said.split("; ")
    contrived = parts[0] + " (" + "".join(f"); {part} (" * 12 for part in parts[1:])
    started = time.process_time()

    assert not explain.agrees(contrived, counts, POD)

    assert time.process_time() - started < SECONDS
