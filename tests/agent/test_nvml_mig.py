"""MIG mode and instances as the driver tells them, some of which it does not tell everybody."""

import datetime as dt
import re
from typing import Final

import pytest

from berth_agent import probe
from berth_crds import wire
from support import nodes
from support.nvml import presets

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN = 3, 4, 999
GPU_IS_LOST, RESET_REQUIRED, FUNCTION_NOT_FOUND = 15, 16, 13


# ---------------------------------------------------------------- MIG


def instances(looking: probe.Probe) -> list[tuple[str, int | None, int | None, wire.MigPlacement | None]]:
    """Give profile, ids and placement of the instances of the first card."""
    mig = nodes.first(looking).mig
    assert mig
    return [(each.profile, each.gi, each.ci, each.placement) for each in mig.instances]


def test_instances_stand_with_profile_and_placement(place: nodes.Place) -> None:
    """Instances of mixed profiles are all there, the one behind a hole in the numbers too."""
    looking = place(presets.MIG).start()

    assert instances(looking) == [
        ("3g.40gb", 1, 0, wire.MigPlacement(4, 4)),
        ("2g.20gb", 3, 0, wire.MigPlacement(0, 2)),
        ("1g.10gb", 9, 0, wire.MigPlacement(2, 1)),
        ("1g.10gb+me", 11, 0, wire.MigPlacement(3, 1)),
    ]
    mig = nodes.first(looking).mig
    assert mig
    assert mig.enabled
    assert [each.memory >> 20 for each in mig.instances] == [40192, 19968, 9728, 9728]
    assert all(each.uuid.startswith("MIG-") for each in mig.instances)


def test_empty_mig_card_is_a_card(place: nodes.Place) -> None:
    """A card in MIG mode without an instance is listed as what it is, and so are the cards beside it."""
    rig = place(presets.DGX_A100, {"card.2.mig.mode": "1 1"})

    sample = nodes.look(rig.start())
    assert not list(sample.lost_cards())
    assert [card.mig for card in sample.answering_cards()] == [
        wire.Mig(enabled=card.index == 2, instances=()) for card in sample.answering_cards()
    ]


def test_instances_are_those_of_now(place: nodes.Place) -> None:
    """Instances that are made or given back show at the next look."""
    rig = place(presets.MIG)
    rig.look()
    rig.machine.change({"card.0.mig.1": None, "card.0.mig.2": presets.instance("mig", 9, 5, 0, size=2)})

    assert [profile for profile, *_ in instances(rig.source)] == [
        "3g.40gb",
        "1g.20gb",
        "1g.10gb",
        "1g.10gb+me",
    ]
    rig.machine.change({"card.0.mig.mode": "0 0"})
    assert nodes.first(rig.source).mig == wire.Mig(enabled=False)


def test_pending_mode_is_not_the_mode(place: nodes.Place) -> None:
    """A mode that waits for a reset does not count yet."""
    rig = place(presets.DGX_A100, {"card.0.mig.mode": "0 1"})

    assert nodes.first(rig.start()).mig == wire.Mig(enabled=False)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_placement_may_be_unknown(place: nodes.Place, code: int) -> None:
    """Where the driver does not tell placements, profiles are named by slices and memory."""
    rig = place(presets.MIG, {"error.nvmlDeviceGetGpuInstanceById": code})

    assert [(profile, placement) for profile, _, _, placement in instances(rig.start())] == [
        ("3g.40gb", None),
        ("2g.20gb", None),
        ("1g.10gb", None),
        ("1g.10gb", None),
    ]


@pytest.mark.parametrize("told", [True, False], ids=["names told", "names made"])
def test_compute_instance_of_fewer_slices_says_so(place: nodes.Place, *, told: bool) -> None:
    """An instance that has some of its GPU instance's compute slices has a name of its own."""
    rig = place(presets.MIG, {"card.0.mig.0": presets.instance("mig", 2, 1, 4, size=4, compute=1)})
    if not told:
        rig.machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", FUNCTION_NOT_FOUND)

    assert instances(rig.start())[0][0] == "1c.3g.40gb"


def test_instance_that_cannot_be_read_makes_its_card_lost(place: nodes.Place) -> None:
    """A card in MIG mode of which not every instance is known must not be given out."""
    rig = place(presets.MIG, {"error.nvmlDeviceGetAttributes_v2": UNKNOWN})

    assert [lost.reason for lost in nodes.look(rig.start()).lost_cards()] == ["UnknownError"]


def test_summary_tells_how_cards_are_cut(place: nodes.Place) -> None:
    """The column `sharing` names the profiles; a card in MIG mode without instances says that alone."""
    rig = place(presets.MIG)
    cut = rig.spec().summary
    rig.machine.change({key: None for key in rig.machine.read() if re.fullmatch(r"card\.0\.mig\.\d+", key)})
    empty = rig.spec().summary
    rig.machine.change({"card.0.mig.mode": "0 0"})
    whole = rig.spec().summary

    assert cut is not None and empty is not None and whole is not None
    assert cut.sharing == "mig 1g.10gb x1, 1g.10gb+me x1, 2g.20gb x1, 3g.40gb x1"
    assert (empty.sharing, whole.sharing) == ("mig", "")
