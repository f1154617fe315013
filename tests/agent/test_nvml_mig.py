"""MIG mode and instances as the driver tells them, some of which it does not tell everybody."""

import re

import pytest

from berth_agent import probe
from berth_crds import wire
from support import nodes
from support.nvml import presets

NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN = 3, 4, 13, 999


def instances(looking: probe.Probe) -> tuple[wire.MigInstance, ...]:
    """Return the instances of the first card, which is in MIG mode."""
    mig = nodes.first(looking).mig
    assert mig
    assert mig.enabled
    return mig.instances


def test_instances_stand_with_profile_and_placement(place: nodes.Place) -> None:
    """Instances of mixed profiles are all there, the one behind a hole in the numbers too."""
    found = instances(place(presets.MIG).start())

    assert [(each.profile, each.gi, each.ci, each.memory >> 20, each.placement) for each in found] == [
        ("3g.40gb", 1, 0, 40192, wire.MigPlacement(4, 4)),
        ("2g.20gb", 3, 0, 19968, wire.MigPlacement(0, 2)),
        ("1g.10gb", 9, 0, 9728, wire.MigPlacement(2, 1)),
        ("1g.10gb+me", 11, 0, 9728, wire.MigPlacement(3, 1)),
    ]
    assert all(each.uuid.startswith("MIG-") for each in found)


def test_mode_is_that_of_now(place: nodes.Place) -> None:
    """A card in MIG mode without an instance is listed as that; a mode that waits does not count."""
    rig = place(presets.DGX_A100, {"card.2.mig.mode": "1 1", "card.3.mig.mode": "0 1"})

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

    assert [each.profile for each in instances(rig.source)] == [
        "3g.40gb",
        "1g.20gb",
        "1g.10gb",
        "1g.10gb+me",
    ]
    rig.machine.change({"card.0.mig.mode": "0 0"})
    assert nodes.first(rig.source).mig == wire.Mig(enabled=False)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_placement_may_be_unknown(place: nodes.Place, code: int) -> None:
    """Where the driver does not tell placements, profiles are named by slices and memory."""
    rig = place(presets.MIG, {"error.nvmlDeviceGetGpuInstanceById": code})

    assert [(each.profile, each.placement) for each in instances(rig.start())] == [
        ("3g.40gb", None),
        ("2g.20gb", None),
        ("1g.10gb", None),
        ("1g.10gb", None),
    ]


@pytest.mark.parametrize("code", [None, FUNCTION_NOT_FOUND], ids=["names of the driver", "names made up"])
def test_compute_instance_of_fewer_slices_says_so(place: nodes.Place, code: int | None) -> None:
    """An instance that has some of its GPU instance's compute slices has a name of its own."""
    rig = place(presets.MIG, {"card.0.mig.0": presets.instance("mig", 2, 1, 4, size=4, compute=1)})
    rig.machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", code)

    assert instances(rig.start())[0].profile == "1c.3g.40gb"


def test_driver_may_know_fewer_profiles_than_the_bindings(place: nodes.Place) -> None:
    """Numbers that an older driver refuses cost neither the card nor the names that it has."""
    rig = place(presets.MIG, {"driver.profiles": 8})

    assert [each.profile for each in instances(rig.start())] == [
        "3g.40gb",
        "2g.20gb",
        "1g.10gb",
        "1g.10gb+me",
    ]


def test_name_that_cannot_be_read_is_made_up_until_it_can(place: nodes.Place) -> None:
    """A failure to read names of profiles does not cost the card, and the next sample has them."""
    rig = place(presets.MIG, {"error.nvmlDeviceGetGpuInstanceProfileInfoV": UNKNOWN})

    assert [each.profile for each in instances(rig.source)] == ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    rig.machine.fail("nvmlDeviceGetGpuInstanceProfileInfoV", None)
    assert instances(rig.source)[3].profile == "1g.10gb+me"


def test_instance_that_cannot_be_read_makes_its_card_lost(place: nodes.Place) -> None:
    """A card in MIG mode of which not every instance is known must not be given out."""
    rig = place(presets.MIG, {"error.nvmlDeviceGetAttributes_v2": UNKNOWN})

    assert [lost.reason for lost in nodes.look(rig.start()).lost_cards()] == ["UnknownError"]


def test_summary_tells_how_cards_are_cut(place: nodes.Place) -> None:
    """The column `sharing` names the profiles; a card in MIG mode without instances says that alone."""
    rig = place(presets.MIG)
    specs = [rig.spec()]
    rig.machine.change({key: None for key in rig.machine.read() if re.fullmatch(r"card\.0\.mig\.\d+", key)})
    specs.append(rig.spec())
    rig.machine.change({"card.0.mig.mode": "0 0"})
    specs.append(rig.spec())

    cut = "mig 1g.10gb x1, 1g.10gb+me x1, 2g.20gb x1, 3g.40gb x1"
    assert [spec.summary.sharing for spec in specs if spec.summary] == [cut, "mig", ""]
