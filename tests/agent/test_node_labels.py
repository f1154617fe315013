"""A Node is labelled with what its cards have in common, in words that a label may have."""

import re
from typing import Final

import msgspec
import pytest

from berth_agent import card_modes, device_spec, found_labels, node_labels, simulated
from berth_crds import vocabulary, wire
from support import nodes
from support.nvml import presets

NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def labels(shape: str, **changes: object) -> dict[str, str]:
    """Give the labels of a made-up node, without their group."""
    spec = device_spec.spec("n1", simulated.machine("n1", shape), None)
    return told(msgspec.structs.replace(spec, **changes))


def told(spec: wire.DeviceSpec) -> dict[str, str]:
    """Give the labels of a Device, without their group; each must be one that the server takes."""
    found = node_labels.labels(spec)
    for key, text in found.items():
        group, _, name = key.partition("/")
        assert group == "berth.dev"
        assert NAME.fullmatch(name), name
        assert NAME.fullmatch(text), text
        assert node_labels.ours(key)
    return {key.removeprefix("berth.dev/"): text for key, text in found.items()}


def test_one_model_is_told_in_full(place: nodes.Place) -> None:
    """Product, memory, count, compute capability and driver each have a label."""
    spec = nodes.spec(place(presets.DGX_A100).start())

    assert told(spec) == {
        "gpu.product": "A100-SXM4-80GB",
        "gpu.model.A100-SXM4-80GB": "8",
        "gpu.memory": "81251",
        "gpu.count": "8",
        "gpu.family": "ampere",
        "gpu.compute.major": "8",
        "gpu.compute.minor": "0",
        "gpu.mig": "disabled",
        "cuda.driver-version.full": "550.107.02",
        "cuda.driver-version.major": "550",
        "cuda.driver-version.minor": "107",
        "cuda.driver-version.revision": "02",
        "cuda.runtime-version.full": "12.4",
        "cuda.runtime-version.major": "12",
        "cuda.runtime-version.minor": "4",
    }


def test_what_models_do_not_share_is_not_told() -> None:
    """A mixed node has no product that would be that of some of its cards; each model is counted."""
    found = labels("2xT4+3xL4")

    assert found["gpu.count"] == "5"
    assert {key: text for key, text in found.items() if key.startswith("gpu.model.")} == {
        "gpu.model.Tesla-T4": "2",
        "gpu.model.L4": "3",
    }
    assert not {"gpu.product", "gpu.memory", "gpu.compute.major", "gpu.family"} & found.keys()


def test_sharing_is_told_where_all_cards_are_shared_alike() -> None:
    """Strategy and replicas have labels of their own."""
    sharing = wire.Sharing(vocabulary.SharingStrategy.MPS, 2)
    spec = device_spec.spec("n1", simulated.machine("n1", "2xT4"), None, card_modes.CardModes(sharing))
    assert told(spec).items() >= {"gpu.sharing-strategy": "mps", "gpu.replicas": "2"}.items()

    one, other = spec.devices
    mixed = (one, msgspec.structs.replace(other, sharing=None))
    assert not {"gpu.sharing-strategy", "gpu.replicas"} & labels("2xT4", devices=mixed).keys()


def test_node_without_cards_has_no_label() -> None:
    """Neither an empty list nor NICs alone make a GPU node."""
    assert labels("1xT4", devices=()) == {}
    assert labels("1xT4", devices=(wire.Card(uuid="rdma-0", type="rdma", minor=0),)) == {}


def test_what_is_unknown_is_not_told() -> None:
    """An empty version or capability is no label."""
    spec = device_spec.spec("n1", simulated.machine("n1", "1xT4"), None)
    bare = msgspec.structs.replace(spec.devices[0], compute_capability="", memory=0)
    found = labels("1xT4", devices=(bare,), driver=None)

    assert found.keys() == {"gpu.count", "gpu.product", "gpu.model.Tesla-T4", *({"gpu.mig"} & found.keys())}


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("NVIDIA RTX 6000 Ada Generation (24 GB)!", id="signs"),
        pytest.param("X" * 200, id="long"),
        pytest.param("Karte für Grafik", id="letters of elsewhere"),
        pytest.param("(((", id="nothing that a label may have"),
        pytest.param("A" * 52 + "-B", id="a dash where it is cut"),
    ],
)
def test_any_name_makes_a_valid_label(model: str) -> None:
    """Whatever the driver calls a card, the server takes the labels."""
    spec = device_spec.spec("n1", simulated.machine("n1", "1xT4"), None)
    card = msgspec.structs.replace(spec.devices[0], model=model)

    assert labels("1xT4", devices=(card,))["gpu.count"] == "1"


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        *(("6.1", "pascal"), ("7.0", "volta"), ("7.5", "turing"), ("8.0", "ampere"), ("8.6", "ampere")),
        *(("8.9", "ada-lovelace"), ("9.0", "hopper"), ("10.0", "blackwell"), ("12.0", "blackwell")),
        ("", "undefined"),
    ],
)
def test_families(capability: str, family: str) -> None:
    """Each compute capability belongs to the family that NVIDIA counts it to."""
    assert found_labels.family(capability) == family


@pytest.mark.parametrize("version", ["535.-1", "535 .104.05", "535.104_.5", "...", "5.3.5.1"])
def test_any_version_makes_valid_labels(version: str) -> None:
    """A part of a version that is no label is left out, and costs no other label."""
    assert labels("1xT4", driver=wire.Driver(version, version))["gpu.count"] == "1"
