"""Which cards of a Device form partitions: what people wrote, what the agent found, what the model has."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from berth_crds import aliases, catalog, wire
from berth_crds.vocabulary import Scope
from berth_operator.scheduling.devices import device_facts, node_topology
from berth_operator.translate import devices, partition_tables
from support import topologies

PAIR: Final = {"minors": [1, 0], "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi", "allocationScore": 7}
HALVES: Final = ((0, 1, 2, 3), (4, 5, 6, 7))


def read(
    written: object = None, *, labels: Mapping[str, str] = {}, shape: str = "4xA40"
) -> device_facts.Device:
    """Return a Device with a table that people wrote."""
    text = written if isinstance(written, str) else json.dumps(written)
    notes = {} if written is None else {aliases.PARTITION_TABLE: text}
    made = topologies.published("n1", shape)
    return devices.read(
        wire.Device(wire.Meta(name="n1", annotations=notes, labels=dict(labels)), made.spec, made.status)
    )


def slots(device: device_facts.Device, size: int) -> list[tuple[int, ...]]:
    """Return the partitions of a size in the order of the table."""
    return [node_topology.slots(one.mask) for one in device.topology.partitions if one.size == size]


WRITTEN: Final[dict[str, tuple[object, tuple[node_topology.Partition, ...]]]] = {
    "score and bandwidth": ({"2": [PAIR]}, (node_topology.Partition(0b11, 7, 400 << 30),)),
    "neither": ({"2": [{"minors": [2, 3]}]}, (node_topology.Partition(0b1100),)),
    "a card that is not there": (
        {"2": [{"minors": [3, 4]}], "1": [{"minors": [3]}]},
        (node_topology.Partition(0b1000),),
    ),
    "no partition at all": ({}, ()),
}


@pytest.mark.parametrize(("written", "table"), WRITTEN.values(), ids=WRITTEN)
def test_a_table_that_people_wrote(written: object, table: tuple[node_topology.Partition, ...]) -> None:
    """Minors become slots, and what is not said is unknown."""
    found = read(written)

    assert found.topology.partitions == table
    assert (found.table_fault, found.topology.by_model) == ("", False)


def test_the_table_of_the_manual() -> None:
    """What the page of agents has people write is read as it says."""
    page = (Path(__file__).resolve().parents[2] / "manifests" / "agents.md").read_text()
    _, _, command = page.partition(f"{aliases.PARTITION_TABLE}='")

    found = read(command[: command.index("'")])

    assert found.table_fault == ""
    assert found.topology.partitions == (
        node_topology.Partition(0b0011, 2, 400 << 30),
        node_topology.Partition(0b1100, 1, 200 << 30),
    )


FAULTS: Final[dict[str, tuple[object, str]]] = {
    "no JSON": ("{]", "it is not a table of partitions in JSON"),
    "a list": ([1], "it is not a table of partitions in JSON"),
    "a number for partitions": ({"2": 3}, "it is not a table of partitions in JSON"),
    "nesting without end": ("[" * 9000, "it is not a table of partitions in JSON"),
    "a partition that is none": ({"2": ["a"]}, "it is not a table of partitions in JSON"),
    "no minors": ({"2": [{}]}, "a partition has no list of minors"),
    "a minor that is no number": ({"1": [{"minors": [True]}]}, "a partition has no list of minors"),
    "another count": ({"3": [PAIR]}, "a partition under 3 has not so many different minors"),
    "a card twice": ({"2": [{"minors": [1, 1]}]}, "a partition under 2 has not so many different minors"),
    "a score below zero": (
        {"2": [PAIR | {"allocationScore": -1}]},
        "an allocationScore is no whole number from 0 to 1000000",
    ),
    "no bandwidth": (
        {"2": [PAIR | {"ringBusBandwidth": "fast"}]},
        "a ringBusBandwidth is no quantity, such as 400Gi",
    ),
    "too many": ({"1": [{"minors": [0]}] * 65}, "it has more than 64 partitions"),
    "too long": (" " * 16_385, "it is longer than 16384 characters"),
}


@pytest.mark.parametrize(("written", "words"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_table_loses_nothing(written: object, words: str) -> None:
    """What is wrong is said in a sentence, and the agent's table counts as before."""
    found = read(written, shape="8xA100-SXM4-80GB")

    assert found.table_fault == f"annotation {aliases.PARTITION_TABLE} is not read: {words}"
    assert slots(found, 4) == list(HALVES)


def test_what_people_wrote_comes_before_what_the_agent_found() -> None:
    """A table of an annotation replaces the agent's."""
    assert read({"2": [PAIR]}, shape="8xA100-SXM4-80GB").topology.partitions == (
        node_topology.Partition(0b11, 7, 400 << 30),
    )


MODELS: Final = {
    "NVIDIA H100 80GB HBM3": True,
    "H100": True,
    "NVIDIA-H800": True,
    "NVIDIA H20": True,
    "NVIDIA H20-3e": True,
    "NVIDIA H100 PCIe": False,
    "NVIDIA H100 NVL": False,
    "NVIDIA H200": False,
    "NVIDIA A100-SXM4-80GB": False,
}


@pytest.mark.parametrize(("model", "known"), MODELS.items(), ids=MODELS)
def test_tables_of_models(model: str, known: bool) -> None:  # noqa: FBT001  a column of the table
    """Boards with a switch are cut in halves; cards on PCIe have none, and other models are not guessed."""
    sizes = [len(group) for group in catalog.partitions(model)]

    assert sizes == ([1] * 8 + [2] * 4 + [4] * 2 + [8] if known else [])


def _hopper(*models: str) -> device_facts.Device:
    cards: tuple[Any, ...] = tuple(
        wire.Card(type="gpu", uuid=f"GPU-{minor}", minor=minor, model=model, memory=1 << 36)
        for minor, model in enumerate(models)
    )
    return devices.read(wire.Device(wire.Meta(name="n1"), wire.DeviceSpec(node="n1", devices=cards)))


def test_the_table_of_a_model_proves_no_link() -> None:
    """It serves where nobody published one, and makes no group of NVLink."""
    topology = _hopper(*["NVIDIA H800"] * 8).topology

    assert topology.by_model
    assert set(topology.peers) == {0}
    assert len(topology.scope(Scope.NODE)) == 1


def test_cards_of_two_models_have_no_table() -> None:
    """Only a topology of one model is known."""
    assert _hopper("NVIDIA H800", "NVIDIA H20").topology.partitions == ()


def test_a_lost_card_takes_its_partitions_along() -> None:
    """Of seven cards one half is left."""
    assert slots(_hopper(*["NVIDIA H20"] * 7), 4) == [(0, 1, 2, 3)]


LABELS: Final[dict[str, tuple[dict[str, str], bool | None]]] = {
    "nothing": ({}, None),
    "Koordinator's Honor": ({aliases.PARTITION_POLICIES[1]: "Honor"}, True),
    "Koordinator's Prefer": ({aliases.PARTITION_POLICIES[1]: "Prefer"}, False),
    "Berth's own": ({aliases.PARTITION_POLICIES[0]: "honor"}, True),
    "Berth's own comes first": (
        {aliases.PARTITION_POLICIES[0]: "prefer", aliases.PARTITION_POLICIES[1]: "Honor"},
        False,
    ),
    "another word says nothing": ({aliases.PARTITION_POLICIES[0]: "always"}, None),
}


@pytest.mark.parametrize(("labels", "honored"), LABELS.values(), ids=LABELS)
def test_labels(labels: dict[str, str], honored: bool | None) -> None:  # noqa: FBT001  a column
    """Berth's label comes before Koordinator's, in upper or lower case; a Device may have them, too."""
    assert partition_tables.honored(labels) is honored
    assert read(labels=labels).honors_partitions is bool(honored)
