"""What a leader declares is read back as it was meant, and what cannot be read excludes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_operator.engine import bind_declaration
from berth_operator.engine.bind_declaration import EVERYTHING, BindDeclaration

DECLARED = st.builds(BindDeclaration, st.integers(-1, 2**64), st.frozensets(st.text(max_size=5)))


@given(DECLARED)
def test_it_is_read_back_as_it_was_written(declared: BindDeclaration) -> None:
    """The Lease carries a declaration from one leader to the next without loss."""
    assert bind_declaration.decode(bind_declaration.encode(declared)) == declared


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
    found = bind_declaration.decode(text)

    assert found == EVERYTHING
    assert found.covers("any", 0)


def test_new_pods_are_covered_and_old_ones_by_name() -> None:
    """So a new pod costs no write, and an old one can be declared."""
    declared = BindDeclaration(after=10, uids=frozenset({"old"}))

    assert declared.covers("new", 11)
    assert declared.covers("old", 3)
    assert not declared.covers("other", 10)
