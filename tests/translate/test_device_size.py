"""A Device that says too much gets no pod and says why, and what it says costs little."""

import pathlib
from typing import Any, Final
from unittest import mock

import pytest
import yaml

import berth_crds
from berth_crds import schema_limits
from berth_operator.scheduling import uuid_ownership
from berth_operator.scheduling.devices import facts
from berth_operator.translate import devices, raw
from support import builders

Cards = list[dict[str, Any]]

NIC: Final = {"type": "rdma", "memory": None, "model": ""}


def cut(cards: int, each: int, profiles: int = 1) -> Cards:
    """Return cards with so many MIG instances each, of so many profiles in all."""
    numbers = [[card * each + one for one in range(each)] for card in range(cards)]
    lists = [
        [{"uuid": f"M{at}", "profile": f"1g.{at % profiles + 1}gb", "memory": 1} for at in those]
        for those in numbers
    ]
    return [{"mig": {"enabled": True, "instances": instances}} for instances in lists]


def virtual(groups: int, functions: int, labels: int = 0, length: int = 1) -> Cards:
    """Return a network card with so many groups of so many functions, and labels of so many characters."""
    said = {f"l{at:02}": "x" * length for at in range(labels)}
    vfs = [[{"minor": 0, "busID": f"{at:04}:{one:03}"} for one in range(functions)] for at in range(groups)]
    return [NIC | {"vfGroups": [{"labels": said, "vfs": each} for each in vfs]}]


def labelled(cards: int, labels: int, length: int = 1) -> Cards:
    """Return cards with so many labels each, of so many characters."""
    return [{"labels": {f"l{at:02}": "x" * length for at in range(labels)}}] * cards


CASES: Final[dict[str, tuple[Cards, Cards, str]]] = {
    "uuids": (cut(8, 63), cut(8, 64), "512 uuids of cards and MIG instances"),
    "profiles": (cut(2, 64, 64), cut(2, 64, 65), "64 MIG profiles"),
    "functions": (virtual(16, 256), virtual(17, 256), "4096 virtual functions"),
    "labels of cards": (labelled(64, 16), labelled(64, 17), "1024 labels"),
    "labels of functions": (
        virtual(1, 256, 64),
        virtual(1, 257, 64),
        "16384 labels of virtual functions, counted for each of them",
    ),
    "long labels": (
        labelled(32, 16, 253),
        labelled(32, 16, 254),
        "131072 characters in labels",
    ),
}


@pytest.mark.parametrize(("enough", "too_much", "what"), CASES.values(), ids=CASES.keys())
def test_a_device_that_says_too_much_is_closed(enough: Cards, too_much: Cards, what: str) -> None:
    """As much as the limit is read; of more nothing is given, but the cards stay known, and it says why."""
    read, closed = (devices.read(builders.published(cards=cards)) for cards in (enough, too_much))

    assert (read.failed, closed.failed) == ("", f"more than {what}")
    kept = [*closed.cards, *closed.others]
    assert len(kept) == len(too_much)
    assert not any(one.instances or one.functions or one.labels for one in kept)
    assert [one.mig for one in closed.cards] == ["mig" in one for one in too_much if one.get("type") is None]


def test_labels_of_functions_are_sorted_once_for_each_group() -> None:
    """All functions of a group share one list of labels, however many they are."""
    thing = builders.published(cards=virtual(2, 200, 40))

    with mock.patch.object(devices, "sorted", wraps=sorted, create=True) as ordered:
        (found,) = devices.read(thing).others

    assert len({id(one.labels) for one in found.functions}) == 2
    assert ordered.call_count < 10


def test_function_without_an_address_is_not_kept() -> None:
    """It cannot be given out, so nothing is known of it."""
    vfs = [{"minor": 0}, {"minor": 1, "busID": "0000:3b:00.2"}, {"minor": 2, "busID": ""}]

    (found,) = devices.read(builders.published(cards=[NIC | {"vfGroups": [{"vfs": vfs}]}])).others

    assert found.functions == (facts.Function("0000:3b:00.2", 1),)


def test_uuids_that_are_read_can_all_be_recorded() -> None:
    """The status of a Device takes a claim for each of them."""
    home = pathlib.Path(berth_crds.__file__).parents[1]
    crd = yaml.safe_load((home / "devices.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

    assert schema["status"]["properties"]["claims"]["maxItems"] >= schema_limits.TOTAL_UUIDS


@pytest.mark.parametrize(
    ("length", "failed"), [(1 << 20, ""), ((1 << 20) + 1, "more than 1048576 bytes as an object")]
)
def test_a_device_into_which_little_can_be_written_is_closed(length: int, failed: str) -> None:
    """Whose its cards are might not be recorded there, so it claims none of them."""
    thing = builders.published(cards=cut(2, 3))
    large = raw.Device(thing.metadata, thing.spec, thing.status, length=length)

    found = devices.read(large)

    assert (found.failed, found.large) == (failed, bool(failed))
    assert len(list(uuid_ownership.named(found))) == (0 if failed else 8)
    assert len(found.cards) == 2
