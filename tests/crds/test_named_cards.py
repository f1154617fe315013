"""People name cards by uuid, by minor, or all of them."""

import pytest

from berth_crds import named_cards, wire

CARDS = (
    wire.Card(uuid="GPU-a", type="gpu", minor=0),
    wire.Card(uuid="GPU-b", type="gpu", minor=1),
    wire.Card(uuid="rdma-1", type="rdma", minor=1),
)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("GPU-a", {"GPU-a"}),
        ("1", {"GPU-b"}),
        ("rdma-1", {"rdma-1"}),
        ("all", {"GPU-a", "GPU-b", "rdma-1"}),
        ("2", set()),
        ("01", set()),
        ("gpu-a", set()),
        ("", set()),
    ],
)
def test_named(word: str, meant: set[str]) -> None:
    """A minor is a GPU's; what is spelt otherwise names nothing."""
    assert named_cards.uuids_named(word, CARDS) == meant
