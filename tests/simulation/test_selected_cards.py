"""Cards that a pod selects by their labels, through `place`."""

import pytest

from berth_crds import names
from simulation import simulator

CARDS, NODE = simulator.device(), simulator.node()


def labelled() -> simulator.Body:
    """Return a Device of which the cards with minors 1 and 3 have a label."""
    devices = [
        card | ({"labels": {"tier": "gold"}} if card["minor"] % 2 else {})
        for card in CARDS["spec"]["devices"]
    ]
    return CARDS | {"spec": CARDS["spec"] | {"devices": devices}}


HINT = "scheduling.koordinator.sh/device-allocate-hint"
OF_GOLD = (
    '{"gpu": {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}}}'
)


@pytest.mark.parametrize(
    "annotations",
    [{names.LABELS: "gpu: tier=gold"}, {HINT: OF_GOLD}],
    ids=["in our words", "in Koordinator's"],
)
def test_cards_are_selected_by_labels(annotations: dict[str, str]) -> None:
    """A pod gets no card but those that it selects; one that asks for more of them is told so."""
    three, two = (
        simulator.pod(f"p{count}", {"nvidia.com/gpu": count}, annotations=annotations) for count in (3, 2)
    )

    refused, placed = simulator.place(NODE, labelled(), three, two)

    assert refused["refusals"][0]["reason"] == "LabelMismatch"
    assert "if it asked for 2 instead of 3 cards" in refused["nearest"]
    assert [share["minor"] for share in placed["allocation"]["containers"]["main"]["gpu"]] == [1, 3]
