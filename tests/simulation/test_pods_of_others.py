"""Whole pods of other projects, as they are, through `place`."""

from typing import Any, Final

import pytest

from simulation import simulator
from support import pods_of_others

NIC: Final = {
    "uuid": "rdma-0000:1f:00.0",
    "type": "rdma",
    "minor": 0,
    "vfGroups": [{"vfs": [{"minor": 0, "busID": "0000:1f:00.2"}]}],
}


@pytest.mark.parametrize("case", pods_of_others.CASES.values(), ids=pods_of_others.CASES.keys())
def test_it_gets_what_it_asks_for_or_is_told_why_not(case: dict[str, Any]) -> None:
    """A pod needs no change but for those with a sentence that says so."""
    node, device = simulator.both("n1", pods_of_others.SHAPE)
    node["metadata"]["labels"] = case.get("labels", {})
    cards = device["spec"]["devices"]
    near = NIC | {"topology": cards[0]["topology"] | {"busID": "0000:1f:00.0"}}
    device["spec"]["devices"] = [*cards, near]

    words = ["--scheduler-names", pods_of_others.SCHEDULERS]
    (answer,) = simulator.place(node, device, case["pod"], words=words)

    if "told" in case:
        told = [refusal["message"] for refusal in answer["refusals"]]
        assert answer["node"] is None
        assert case["told"] in " ".join([*told, answer["nearest"] or ""])
    else:
        memory = {card["uuid"]: card["memory"] for card in cards}
        pods_of_others.assert_given(case, answer["allocation"], memory)
