"""Looking for garbage takes little time at once, for nothing else happens meanwhile."""

import gc
from collections.abc import Iterator

import pytest

from berth_operator.engine import garbage_collection


@pytest.fixture
def undone() -> Iterator[None]:
    """Have the rest of the tests look for garbage as ever."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("undone")
def test_a_usual_look_is_at_few_objects() -> None:
    """At those that came since the last one, however much pods say; at all objects hardly ever."""
    garbage_collection.settle()

    young, once, all_ = gc.get_threshold()
    assert young * once <= 50_000
    assert young * once * all_ >= 100_000_000
