"""How cards are given out by NVIDIA's choices, and what nvidia.com/gpu asks for then (N15, N16, N29)."""

import msgspec
import pytest

from berth_agent import card_modes, device_spec, device_status, simulated
from berth_agent.card_modes import CardModes
from berth_crds import names, wire

SHARING = wire.Sharing("time-slicing", 4)
WHOLE = wire.Card("GPU-w", "gpu", 0)


def cut(minor: int, *profiles: str) -> wire.Card:
    """Return a card in MIG mode with instances of these profiles."""
    instances = tuple(
        wire.MigInstance(f"MIG-{minor}-{number}", profile, 10) for number, profile in enumerate(profiles)
    )
    return wire.Card(f"GPU-{minor}", "gpu", minor, mig=wire.Mig(enabled=True, instances=instances))


def modes(strategy: str = card_modes.MIXED, *, shared: bool = False, renamed: bool = True) -> CardModes:
    """Return modes."""
    return CardModes(SHARING if shared else None, renamed, strategy)


@pytest.mark.parametrize(
    ("cards", "chosen", "expected"),
    [
        pytest.param([WHOLE], modes(), "", id="whole cards"),
        pytest.param([WHOLE], modes("single"), "", id="single, and no card is cut"),
        pytest.param([cut(0, "1g.10gb+me")] * 2, modes("single"), "nvidia.com/mig-1g.10gb.me", id="single"),
        pytest.param([cut(0, "1g.10gb")], modes("mixed"), "", id="mixed"),
        pytest.param([cut(0, "1g.10gb"), WHOLE], modes("single"), "", id="single, but one is whole"),
        pytest.param([cut(0, "1g.10gb", "2g.20gb")], modes("single"), "", id="single, but of two profiles"),
        pytest.param([cut(0)], modes("single"), "", id="single, but empty"),
        pytest.param(
            [cut(0, "1g.10gb"), WHOLE],
            modes("single", shared=True, renamed=False),
            names.NVIDIA_GPU_SHARED,
            id="single, but one is whole, and shared",
        ),
        pytest.param([WHOLE], modes(shared=True), "", id="shared under a name of its own"),
        pytest.param([WHOLE], modes(shared=True, renamed=False), names.NVIDIA_GPU_SHARED, id="shared"),
        pytest.param([cut(0, "1g.10gb")], modes(shared=True, renamed=False), "", id="none to share"),
        pytest.param([cut(0, "1g.10gb")], modes("none", shared=True, renamed=False), names.NVIDIA_GPU_SHARED),
    ],
)
def test_nvidia_com_gpu_may_stand_for_another_resource(
    cards: list[wire.Card], chosen: CardModes, expected: str
) -> None:
    """For instances where all cards are cut alike, and for replicas that are not renamed."""
    applied = [card_modes.applied(card, chosen) for card in cards]
    assert card_modes.gpu_stands_for([*applied, wire.Card("nic", "rdma", 0)], chosen) == expected


def test_a_card_in_mig_mode_may_be_a_whole_one() -> None:
    """By the strategy none, shared or not; by the others it is not shared."""
    card = cut(0, "1g.10gb")
    assert card_modes.applied(card, modes("none")) == msgspec.structs.replace(card, mig=None)
    assert card_modes.applied(card, modes("none", shared=True)).sharing == SHARING
    assert card_modes.applied(card, modes("single", shared=True)) == card


def test_the_device_says_it() -> None:
    """It is in the spec from the first sample on."""
    sample = simulated.machine("n1", "2xT4")
    found = device_spec.spec("n1", sample, None, modes(shared=True, renamed=False))
    assert found.gpu_stands_for == names.NVIDIA_GPU_SHARED


@pytest.mark.parametrize(
    ("cards", "strategy", "sentence"),
    [
        ([cut(0), cut(1, "1g.10gb")], "mixed", "the card GPU-0 is in MIG mode without instances: "),
        ([cut(0), cut(1)], "mixed", "2 cards, such as GPU-0, are in MIG mode without instances: "),
        ([cut(1, "1g.10gb"), WHOLE], "single", "the card GPU-w is not in MIG mode, but others are: "),
        ([cut(1, "1g.10gb", "2g.20gb")], "single", "the instances are of the profiles 1g.10gb, 2g.20gb: "),
    ],
)
def test_a_layout_that_cannot_be_given_out_is_told(
    cards: list[wire.Card], strategy: str, sentence: str
) -> None:
    """In the condition MIGReady, which is there where a card is in MIG mode."""
    found = device_status.mig_ready(cards, modes(strategy))
    assert found
    assert (found.status, found.reason) == ("False", "WrongLayout")
    assert found.message.startswith(sentence)


def test_a_layout_that_can_be_given_out_is_told() -> None:
    """With what there is of it; where no card is in MIG mode nothing is said."""
    found = device_status.mig_ready([cut(0, "1g.10gb", "1g.10gb"), WHOLE], modes())
    assert found
    assert (found.status, found.message) == ("True", "2 MIG instances on 1 cards are given out.")
    assert device_status.mig_ready([WHOLE], modes()) is None
