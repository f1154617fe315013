"""A declaration goes through the Lease as text, and one that cannot be read covers every pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_operator.engine import bind_declarer
from berth_operator.engine.bind_declarer import BindDeclaration

DECLARED = st.builds(BindDeclaration, st.integers(-1, 2**64), st.frozensets(st.text(max_size=5)))


@given(DECLARED)
def test_it_is_read_back_as_it_was_written(declared: BindDeclaration) -> None:
    """The Lease carries a declaration from one leader to the next without loss."""
    assert bind_declarer.decode(bind_declarer.encode(declared)) == declared


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="an older version led"),
        pytest.param("", id="empty"),
        pytest.param("{", id="no JSON"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param("7", id="a number"),
        pytest.param('{"v":2,"after":5,"pods":[]}', id="another format"),
        pytest.param('{"v":1,"pods":[]}', id="without a revision"),
        pytest.param('{"v":1,"after":true,"pods":[]}', id="an odd revision"),
        pytest.param('{"v":1,"after":5,"pods":"abc"}', id="odd uids"),
        pytest.param('{"v":1,"after":5,"pods":[7]}', id="an odd uid"),
    ],
)
def test_what_cannot_be_read_excludes_nothing(text: str | None) -> None:
    """Every pod that waits may have a bind under way then."""
    found = bind_declarer.decode(text)

    assert found == bind_declarer.EVERYTHING
    assert found.covers("any", 0)


def test_new_pods_are_covered_and_old_ones_by_name() -> None:
    """So a new pod costs no write, and an old one can be declared."""
    declaration = BindDeclaration(after=10, uids=frozenset({"old"}))

    found = [declaration.covers(uid, revision) for uid, revision in (("new", 11), ("old", 3), ("other", 10))]

    assert found == [True, True, False]
