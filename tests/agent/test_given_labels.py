"""Labels that people give by files, to devices that others find; too many of them cost no device."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from berth_agent import device_entries, extra_device_files, extra_devices, probe, rdma, simulated
from berth_crds import schema_limits, wire
from berth_operator.translate import device_size
from support import nodes
from support.rdma_tree import RdmaTree

NIC, FIRST, SECOND = "0000:3b:00.0", "0000:3b:00.2", "0000:3b:00.3"
SHAPE: Final = "2xA100-SXM4-80GB"
FOUND: Final = {"product": "A100-SXM4-80GB", "family": "ampere", "computeCapability": "8.0"}


class Node:
    """Two cards, a network card with two virtual functions, and a folder of files."""

    def __init__(self, root: Path, shape: str = SHAPE, functions: tuple[str, ...] = (FIRST, SECOND)) -> None:
        self.folder = root / "devices"
        self.folder.mkdir()
        self.tree = RdmaTree(root)
        whole = self.tree.add("mlx5_0", NIC)
        for number, address in enumerate(functions):
            self.tree.add_vf(number, address, of=whole)
        files = extra_device_files.DeviceFolder(self.folder, self.tree.kernel)
        extra = extra_devices.ExtraDevices(
            [lambda: rdma.devices(self.tree.kernel), files.devices], files.labels
        )
        self.faults = root / "faults.json"
        self.probe: probe.Probe = simulated.SimulatedProbe("n1", shape, self.faults, extra.complete)
        self.uuids = [card.uuid for card in simulated.machine("n1", shape).answering_cards()]

    def give(self, *entries: dict[str, Any], name: str = "a.json") -> None:
        """Write a file that gives labels, and lists no device."""
        (self.folder / name).write_text(json.dumps({"labels": entries}))

    def labels(self, known: wire.DeviceSpec | None = None) -> dict[str, dict[str, str]]:
        """Return the labels of cards by minor, of the network card, and of its functions by address."""
        devices = nodes.spec(self.probe, known).devices
        groups = [group for card in devices for group in card.vf_groups]
        return {
            **{f"{card.minor}" if card.type == "gpu" else NIC: card.labels for card in devices},
            **{one.bus_id: group.labels for group in groups for one in group.vfs},
        }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Lend a node without files."""
    (tmp_path / "faults.json").write_text("{}")
    return Node(tmp_path)


PLAIN: Final[dict[str, dict[str, str]]] = {"0": FOUND, "1": FOUND, NIC: {}, FIRST: {}, SECOND: {}}
CARD: Final = next(simulated.machine("n1", SHAPE).answering_cards()).uuid
CASES: Final[dict[str, tuple[dict[str, Any], dict[str, dict[str, str]]]]] = {
    "a card by its uuid": ({"uuid": CARD}, {"0": {"a": "b"}}),
    "a card by its minor": ({"type": "gpu", "minor": 1}, {"1": {"a": "b"}}),
    "a card by its address": ({"busID": "0000:01:00.0"}, {"0": {"a": "b"}}),
    "all cards": ({"type": "gpu"}, {"0": {"a": "b"}, "1": {"a": "b"}}),
    "a network card": ({"type": "rdma", "minor": 0}, {NIC: {"a": "b"}}),
    "a function by its address": ({"busID": SECOND}, {SECOND: {"a": "b"}}),
    "a function of a type": ({"busID": SECOND, "type": "rdma"}, {SECOND: {"a": "b"}}),
    "a function that is of another type": ({"busID": SECOND, "type": "fpga"}, {}),
    "a card that has another minor": ({"uuid": CARD, "minor": 1}, {}),
    "a card of another node": ({"uuid": "GPU-elsewhere"}, {}),
}


@pytest.mark.parametrize(("said", "given"), CASES.values(), ids=CASES)
def test_labels_go_to_the_devices_of_which_all_is_so(
    node: Node, said: dict[str, Any], given: dict[str, dict[str, str]]
) -> None:
    """Beside those that the agent found, and to no other device; no device is added."""
    node.give({**said, "labels": {"a": "b"}})

    assert node.labels() == {key: {**found, **given.get(key, {})} for key, found in PLAIN.items()}


def test_functions_are_grouped_by_their_labels(node: Node) -> None:
    """Those of a device get its labels for functions, unless an entry about one of them says otherwise."""
    node.give(
        {"type": "rdma", "functionLabels": {"use": "any", "rail": "1"}},
        {"busID": SECOND, "labels": {"use": "backup"}},
    )

    (found,) = (card.vf_groups for card in nodes.spec(node.probe).devices if card.type == "rdma")
    assert found == (
        wire.VfGroup({"use": "any", "rail": "1"}, (wire.Vf(0, FIRST),)),
        wire.VfGroup({"use": "backup", "rail": "1"}, (wire.Vf(1, SECOND),)),
    )


def test_the_first_file_counts_and_more_than_what_was_found(node: Node) -> None:
    """For each label by itself, however the entries say which device they are about."""
    node.give({"uuid": CARD, "labels": {"tier": "b", "rack": "r1"}}, name="b.json")
    node.give({"type": "gpu", "labels": {"tier": "a", "family": "ours"}})

    assert node.labels()["0"] == {**FOUND, "family": "ours", "tier": "a", "rack": "r1"}


def test_files_are_read_anew(node: Node) -> None:
    """A label that a file no longer gives is gone; one that is half written changes nothing."""
    found = [node.labels()["0"]]
    node.give({"uuid": CARD, "labels": {"a": "b"}})
    found.append(node.labels()["0"])
    (node.folder / "a.json").write_text('{"labels": [')
    found.append(node.labels()["0"])
    (node.folder / "a.json").unlink()

    assert [*found, node.labels()["0"]] == [FOUND, {**FOUND, "a": "b"}, {**FOUND, "a": "b"}, FOUND]


def test_a_lost_card_keeps_its_labels(node: Node) -> None:
    """Nothing in the list of cards changes for it but the verdict."""
    node.give({"uuid": CARD, "labels": {"a": "b"}})
    known = nodes.spec(node.probe)
    node.faults.write_text(json.dumps({"n1": {"0": {"lost": True}}}))

    assert node.labels(known)["0"] == {**FOUND, "a": "b"}


def test_a_device_of_a_file_is_labelled_by_another(node: Node) -> None:
    """An entry does not ask who found a device."""
    device = {"uuid": "npu-1", "type": "npu", "minor": 0, "labels": {"fabric": "a"}}
    (node.folder / "z.json").write_text(json.dumps({"devices": [device]}))
    node.give({"type": "npu", "labels": {"tier": "gold"}})

    assert nodes.spec(node.probe).devices[-1].labels == {"fabric": "a", "tier": "gold"}


# ---------------------------------------------------------------- what cannot be used


LABELLED: Final = {"type": "gpu", "labels": {"a": "b"}}
FAULTS: Final[dict[str, tuple[object, str]]] = {
    "neither devices nor labels": ({}, "it has neither devices nor labels"),
    "no device": ({"labels": [{"labels": {"a": "b"}}]}, "entry 1 of its labels names no device; write uuid"),
    "a minor alone": ({"labels": [{"minor": 0, "labels": {"a": "b"}}]}, "names no device"),
    "no labels": ({"labels": [LABELLED, {"type": "gpu"}]}, "entry 2 of its labels gives none; write labels"),
    "a key with a blank": ({"labels": [{"type": "gpu", "labels": {"a b": "c"}}]}, "'a b' is no key"),
    "a key with two slashes": ({"labels": [{"type": "gpu", "labels": {"a/b/c": "d"}}]}, "is no key"),
    "a key that is too long": ({"labels": [{"type": "gpu", "labels": {"a" * 64: "d"}}]}, "is no key"),
    "a value with a blank": (
        {"labels": [{"type": "rdma", "functionLabels": {"a": "b c"}}]},
        "entry 1 of its labels cannot be used: 'b c' is no value of the label 'a'",
    ),
    "a value that is too long": (
        {"labels": [{"type": "gpu", "labels": {"a": "d" * 64}}]},
        "no value of the label",
    ),
    "a value that is a number": ({"labels": [{"type": "gpu", "labels": {"a": 1}}]}, "Expected `str`"),
    "17 labels": (
        {"labels": [{"type": "gpu", "labels": {f"k{at}": "" for at in range(17)}}]},
        "length <= 16",
    ),
    "257 entries": ({"labels": [LABELLED] * 257}, "length <= 256"),
    "a field that there is not": ({"labels": [{**LABELLED, "node": "n1"}]}, "unknown field `node`"),
    "an address in capitals": (
        {"labels": [{"busID": "0000:3B:00.0", "labels": {"a": "b"}}]},
        "labels[0].busID",
    ),
}


@pytest.mark.parametrize(("content", "words"), FAULTS.values(), ids=FAULTS)
def test_file_with_a_fault_gives_nothing_and_is_told(
    node: Node, caplog: pytest.LogCaptureFixture, content: object, words: str
) -> None:
    """In one line, once; other files count."""
    (node.folder / "a.json").write_text(json.dumps(content))
    node.give({"uuid": CARD, "labels": {"tier": "gold"}}, name="b.json")

    assert node.labels() == node.labels() == {**PLAIN, "0": {**FOUND, "tier": "gold"}}
    (message,) = caplog.messages
    assert words in message and message.isprintable()


def test_a_label_may_be_empty_and_have_a_prefix() -> None:
    """As Kubernetes has it."""
    labels = {"example.com/rack": "", "a": "b", "A_b.c": "1-2"}

    assert device_entries.labels_fault(labels) == ""


# ---------------------------------------------------------------- more than the server takes


def _many(of: str, most: int) -> list[dict[str, Any]]:
    """Return entries that together give a device so many labels."""
    return [{"type": of, "labels": {f"k{at}": "v"}} for at in range(most)]


TOO_MANY: Final[dict[str, tuple[Callable[[], list[dict[str, Any]]], str, str]]] = {
    "labels": (lambda: _many("rdma", 17), NIC, "they are more than 16"),
    "characters": (
        lambda: [
            {"type": "rdma", "labels": {f"{'p' * 63}.{'q' * 60}/{at}{'k' * 60}": "v" * 63 for at in range(5)}}
        ],
        NIC,
        "they have more than 1024 characters",
    ),
    "labels of a function": (
        lambda: [{"type": "rdma", "functionLabels": {f"k{at}": "v"}} for at in range(17)],
        NIC,
        "they are more than 16",
    ),
}


@pytest.mark.parametrize(("entries", "device", "why"), TOO_MANY.values(), ids=TOO_MANY)
def test_too_many_for_one_device_are_left_out(
    node: Node,
    caplog: pytest.LogCaptureFixture,
    entries: Callable[[], list[dict[str, Any]]],
    device: str,
    why: str,
) -> None:
    """The device keeps its own labels, other devices get theirs, and one sentence says so."""
    node.give(*entries(), {"uuid": CARD, "labels": {"tier": "gold"}})

    assert node.labels() == node.labels() == {**PLAIN, "0": {**FOUND, "tier": "gold"}}
    assert caplog.messages == [f"the labels that files give rdma-{device} are left out: {why}"]


def test_functions_have_no_more_groups_than_the_server_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With 17 different sets of labels they get none of these."""
    addresses = tuple(f"0000:3c:{at:02x}.0" for at in range(schema_limits.MOST_GROUPS + 1))
    node = Node(tmp_path, functions=addresses)
    node.give(*({"busID": one, "labels": {"at": f"n{at}"}} for at, one in enumerate(addresses[:-1])))
    groups = [len(card.vf_groups) for card in nodes.spec(node.probe).devices if card.type == "rdma"]
    node.give(*({"busID": one, "labels": {"at": f"n{at}"}} for at, one in enumerate(addresses[:-2])))

    groups += [len(card.vf_groups) for card in nodes.spec(node.probe).devices if card.type == "rdma"]

    assert groups == [1, 16]
    assert "its virtual functions would have more than 16 sets of labels" in caplog.text


@pytest.mark.parametrize("lost", [0, 8], ids=["all well", "some lost"])
def test_all_labels_together_are_what_the_server_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    """With as many cards as a node may have, each with as many labels: cards are all listed."""
    node = Node(tmp_path, "63xA100-SXM4-80GB")
    node.give(
        *({"type": "gpu", "labels": {f"key-{at}": "v" * 10}} for at in range(16)),
        *({"type": "rdma", "labels": {f"key-{at}": "v"}} for at in range(16)),
    )
    before = nodes.spec(node.probe)
    node.faults.write_text(json.dumps({"n1": {f"{minor}": {"lost": True} for minor in range(lost)}}))

    spec = nodes.spec(node.probe, before)

    assert (len(spec.devices), device_size.excess(spec)) == (64, "")
    assert sum(len(card.labels) > 16 for card in spec.devices) >= 48
    assert "are left out: all devices together would have more than 1024 labels" in caplog.text
