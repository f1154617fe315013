"""What all devices of a Device may be together: any hardware fits, and what is beyond that is refused."""

from typing import Any, Final

import pytest

from crds import example_objects
from testbed import api

Cards = list[dict[str, Any]]

LABELS_AND_FUNCTIONS: Final = (
    "4096 virtual functions, 1024 labels with 131072 characters, and 16384 labels of virtual functions, "
    "counted for each of them"
)


def gpus(count: int, *, links: int = 0, instances: int = 0) -> Cards:
    """Return so many cards, each with so many links to the next ones and so many MIG instances."""
    uuids = [f"GPU-6cf3bbc0-7726-46d2-816f-5255112{at:05}" for at in range(count)]
    return [
        {
            "uuid": own,
            "type": "gpu",
            "minor": at,
            "memory": 2**37,
            "links": [
                {"peer": uuids[(at + 1 + step) % count], "kind": "nvlink", "count": 18}
                for step in range(links)
            ],
        }
        | ({"mig": {"enabled": True, "instances": mig_instances(own, instances)}} if instances else {})
        for at, own in enumerate(uuids)
    ]


def mig_instances(card: str, count: int) -> Cards:
    """Return so many MIG instances of a card."""
    return [
        {"uuid": f"MIG-{card}/{gi}", "profile": "1g.10gb", "memory": 2**33, "gi": gi, "ci": 0}
        for gi in range(count)
    ]


def nics(count: int, *, functions: int, labels: int = 0) -> Cards:
    """Return so many network cards with so many virtual functions each, of a group with so many labels."""
    vfs = [{"minor": at, "busID": f"0000:3b:{at // 8:02x}.{at % 8}"} for at in range(functions)]
    return [
        {
            "uuid": f"rdma-0000:{at:02x}:00.0",
            "type": "rdma",
            "minor": at,
            "vfGroups": [{"labels": label_map(labels), "vfs": vfs}],
        }
        for at in range(count)
    ]


def labelled(count: int, labels: int, length: int = 1) -> Cards:
    """Return so many devices with so many labels each, of so many characters."""
    found = label_map(labels, length)
    return [{"uuid": f"F-{at}", "type": "fpga", "minor": at, "labels": found} for at in range(count)]


def label_map(count: int, length: int = 1) -> dict[str, str]:
    """Return so many labels, of so many characters."""
    return {f"l{at:02}": "x" * length for at in range(count)}


def made(objects: example_objects.ExampleObjects, cards: Cards) -> example_objects.Object:
    """Make a Device of these cards."""
    thing = objects.make("device")
    count = sum(card["type"] == "gpu" for card in cards)
    thing["spec"] = {
        "node": thing["metadata"]["name"],
        "devices": cards,
        "summary": {"models": "", "gpus": count},
    }
    return thing


@pytest.mark.parametrize(
    "cards",
    [
        pytest.param(gpus(16, links=15, instances=7) + nics(8, functions=256), id="two boards, cut"),
        pytest.param(gpus(22, links=21, instances=7) + nics(8, functions=256), id="22 cards, all linked"),
        pytest.param(gpus(64, links=8), id="64 cards"),
        pytest.param(gpus(64, links=7, instances=7), id="eight boards, cut"),
        pytest.param(nics(16, functions=256, labels=4), id="all virtual functions"),
        pytest.param(labelled(64, 16, 125), id="all labels"),
    ],
)
def test_hardware_fits(cards: Cards, objects: example_objects.ExampleObjects) -> None:
    """The largest nodes there are can be written, and all of their groups."""
    thing = made(objects, cards)
    uuids = [card["uuid"] for card in cards]
    thing["spec"]["partitions"] = [{"members": uuids, "link": "nvlink"} for _ in range(64)]

    objects.put(thing)

    assert objects.read(thing)["spec"] == thing["spec"]


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        pytest.param(gpus(64, instances=8), "512 uuids, those of MIG instances included", id="uuids"),
        pytest.param(gpus(64, links=9), "512 links", id="links"),
        pytest.param(nics(17, functions=256), LABELS_AND_FUNCTIONS, id="functions"),
        pytest.param(labelled(64, 17), LABELS_AND_FUNCTIONS, id="labels"),
        pytest.param(nics(5, functions=64, labels=64), LABELS_AND_FUNCTIONS, id="labels of functions"),
        pytest.param(labelled(64, 16, 126), LABELS_AND_FUNCTIONS, id="characters"),
    ],
)
def test_what_is_too_much_together_is_refused(
    cards: Cards, words: str, objects: example_objects.ExampleObjects
) -> None:
    """Each list is within its own bound, and the sentence says what all of them may be."""
    with pytest.raises(api.ApiError) as refused:
        objects.put(made(objects, cards), dry_run=True)

    assert f"all devices together have at most {words}" in str(refused.value)
