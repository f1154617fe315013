"""What a leader leaves to the next one in its Lease, whatever else somebody has written there."""

import pytest

from berth_crds import names, wire
from berth_operator.kube import lease_notes

REVISION = "1000"  # Of the Lease.


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("7", 7, id="a revision"),
        pytest.param(REVISION, 1000, id="the Lease's own revision"),
        pytest.param("1001", 0, id="newer than the Lease"),
        pytest.param("18446744073709551616", 0, id="newer than all"),
        pytest.param("9" * 100_000, 0, id="far too long"),
        pytest.param("-7", 0, id="negative"),
        pytest.param("7.5", 0, id="a fraction"),
        pytest.param("\uff17", 0, id="a digit of another script"),
        pytest.param(' {"v": 1}', 0, id="another form"),
    ],
)
def test_only_a_revision_that_the_lease_can_know_of_counts(text: str, stale: int) -> None:
    """All else says nothing: nobody is kept from leading, and no agent's cards are kept back."""
    meta = wire.Meta(resource_version=REVISION, annotations={names.UNRENEWED: text})

    assert lease_notes.stale_revision(meta) == stale


def test_a_lease_of_an_older_version_says_nothing() -> None:
    """Nor does one in a revision that is no number."""
    assert lease_notes.stale_revision(wire.Meta(resource_version=REVISION)) == 0
    meta = wire.Meta(resource_version="x", annotations={names.UNRENEWED: "7"})
    assert lease_notes.stale_revision(meta) == 0


def test_annotations_of_others_stay() -> None:
    """What we wrote before is replaced, or taken out where there is nothing to say."""
    before = {"note": "b", names.UNRENEWED: "7", names.IN_FLIGHT: "old"}

    assert lease_notes.annotations(before, None, 0) == {"note": "b"}
    assert lease_notes.annotations(before, "new", 8) == {
        "note": "b",
        names.IN_FLIGHT: "new",
        names.UNRENEWED: "8",
    }
