"""Labels of pods are kept in order, whole, and shared."""

from typing import Final
from unittest import mock

from berth_operator.engine import pod_memory
from berth_operator.translate import shared_labels
from support import builders

WEB: Final = {"tier": "front", "app": "web"}


def test_equal_labels_are_one_object() -> None:
    """Pods of one workload share theirs, and others the pairs that they have in common."""
    labels = shared_labels.SharedLabels()

    one, same, other = (labels.of({"app": "WEB".lower(), "index": at}) for at in "001")

    assert one is same
    assert one == (("app", "web"), ("index", "0"))
    assert one[0] is other[0]
    assert labels.of(WEB) == labels.of(dict(reversed(WEB.items())))


def test_what_is_shared_is_bounded() -> None:
    """It begins anew where it would take too much; very many labels of one pod are kept, but not shared."""
    labels = shared_labels.SharedLabels()
    with mock.patch.object(shared_labels, "MOST_BYTES", 1000):
        for number in range(100):
            labels.of({"key": f"{number:030}"})
    many = {f"key{at:03}": "" for at in range(shared_labels.MOST_LABELS + 1)}

    assert len(labels._sets) <= 3
    assert labels.of(many) == tuple(many.items())
    assert labels.of(many) is not labels.of(many)


def test_labels_that_are_not_kept_are_not_known() -> None:
    """A pod beyond the limits of memory is told apart from one that has no labels."""
    hold, _ = pod_memory.trimmed(builders.hold("p", labels=(("app", "web"),)), None, admitted=True)

    assert (hold.labels, hold.labels_known) == ((), False)
    assert builders.hold("p").labels_known
    assert pod_memory.bare_hold(builders.hold("p", labels=(("app", "web"),))).labels
