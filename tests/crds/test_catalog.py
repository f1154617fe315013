"""The catalogue of GPU models is consistent with itself and finds what people write."""

import itertools
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import catalog, device

every_model = pytest.mark.parametrize("model", catalog.MODELS, ids=lambda model: model.name)
WITH_MIG = [model for model in catalog.MODELS if model.mig]


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        pytest.param("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", id="the vendor goes"),
        pytest.param("  NVIDIA H100  80GB HBM3 ", "H100-80GB-HBM3", id="spaces become dashes"),
        pytest.param("nvidia l4", "l4", id="case is kept but for the vendor"),
        pytest.param("NVIDIA-H200", "H200", id="a label is a model too"),
        pytest.param("Tesla T4", "Tesla-T4", id="a brand is not a vendor"),
        pytest.param("A100-SXM4-80GB", "A100-SXM4-80GB", id="normal already"),
        pytest.param("NVIDIA", "NVIDIA", id="a vendor alone"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_model_has_one_spelling(name: str, normal: str) -> None:
    """Labels, summaries and requests spell a model the same way."""
    assert catalog.normal_model(name) == normal


@hypothesis.given(name=st.text() | st.from_regex(r"(nvidia[ -]+)*[a-z0-9 -]*", fullmatch=True))
def test_spelling_it_again_changes_nothing(name: str) -> None:
    """The normal spelling of a normal spelling is itself, and has no space in it."""
    once = catalog.normal_model(name)

    assert catalog.normal_model(once) == once
    assert not re.search(r"\s", once)


@every_model
def test_every_spelling_finds_its_model(model: catalog.Model) -> None:
    """People find a model by the driver's name, the normal one and the short one, in any case."""
    spellings = (model.name, model.normal_name, *model.also)

    for name in spellings:
        assert {catalog.find(written) for written in (name, name.upper(), f" {name.lower()} ")} == {model}


def test_an_unknown_model_is_not_guessed() -> None:
    """A name that is not in the catalogue is answered by nothing, not by a similar card."""
    assert catalog.find("A100") is None
    assert catalog.find("") is None


@every_model
def test_a_model_could_stand_in_a_device(model: catalog.Model) -> None:
    """What the catalogue says of a card passes the schema of the Device."""
    card = {
        "uuid": "GPU-1",
        "type": "gpu",
        "minor": 0,
        "model": model.name,
        "memory": model.memory,
        "computeCapability": model.compute_capability,
        "mig": {
            "enabled": True,
            "instances": [
                {
                    "uuid": f"MIG-{number}",
                    "profile": profile.name,
                    "memory": model.memory,
                    "placement": {"start": profile.starts[-1], "size": profile.slices},
                }
                for number, profile in enumerate(model.mig)
            ],
        },
    }

    read = device.Card.model_validate(card)

    assert read.memory == model.memory
    assert model.memory > 10 * catalog.GIB


@every_model
def test_links_of_a_board_go_both_ways(model: catalog.Model) -> None:
    """What a card has to a peer the peer has to it."""
    board = model.layout

    links = {pair: board.links(*pair) for pair in itertools.permutations(range(board.cards), 2)}

    assert all(count == links[peer, card] for (card, peer), count in links.items())


def test_a_card_of_a_dgx_1_has_six_links() -> None:
    """The cube mesh uses every one of a V100's six NVLinks, and reaches the other half by one card each."""
    v100 = catalog.find("V100-SXM2-32GB")
    assert v100 is not None
    links = v100.layout.links

    assert [sum(links(card, peer) for peer in range(8)) for card in range(8)] == [6] * 8
    assert [sum(bool(links(card, peer)) for peer in range(4, 8)) for card in range(4)] == [1] * 4


@every_model
def test_places_on_a_board_are_filled_in_order(model: catalog.Model) -> None:
    """Cards that follow each other are close: NUMA nodes and PCIe roots only rise, and all are used."""
    board = model.layout

    places = [(board.numa_node(card), board.pcie_root(card)) for card in range(board.cards)]

    assert places == sorted(places)
    assert {numa for numa, _ in places} == set(range(board.numa_nodes))
    assert [root for _, root in sorted(set(places))] == list(range(board.pcie_roots)), "a root has one node"


@pytest.mark.parametrize("model", WITH_MIG, ids=lambda model: model.name)
def test_profiles_fit_their_card(model: catalog.Model) -> None:
    """Every profile fits at every place it may start."""
    slices = max(profile.slices for profile in model.mig)

    for profile in model.mig:
        assert all(start + profile.slices <= slices for start in profile.starts)
        assert profile.name.startswith(f"{profile.compute}g.")
