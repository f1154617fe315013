"""Looking for garbage takes little time at once, for nothing else happens meanwhile."""

import gc
from unittest import mock

from berth_operator.engine import garbage_collection


def test_a_usual_collection_is_of_few_objects() -> None:
    """Of those that came since the last one, however much pods say; of all objects hardly ever."""
    with mock.patch.object(gc, "freeze") as freeze, mock.patch.object(gc, "set_threshold") as thresholds:
        garbage_collection.settle()

    young, once, every = thresholds.call_args.args
    assert young * once <= 50_000
    assert young * once * every >= 100_000_000
    freeze.assert_called_once_with()
