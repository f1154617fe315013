"""The tables of other projects' names: complete, without contradictions, and shown to people."""

import collections
from pathlib import Path

import pytest

from berth_crds import aliases, names, requirements
from berth_crds.aliases import Where


def test_a_key_stands_for_one_thing_in_one_place() -> None:
    """No two rows read the same key in the same place."""
    places = collections.Counter((row.where, row.key) for row in (*aliases.AMOUNTS, *aliases.OPTIONS))

    assert [place for place, count in places.items() if count > 1] == []


def test_amounts_stand_for_resources_of_berth() -> None:
    """Every key that asks for devices means one of Berth's own resources, or is left alone."""
    assert {row.means for row in aliases.AMOUNTS} <= {*aliases.OWN, aliases.NOTHING}


def test_no_alias_is_a_name_of_our_own() -> None:
    """An alias that is Berth's own name would mean two things."""
    assert not {*aliases.RESOURCES} & {*aliases.OWN}
    assert not [row.key for row in (*aliases.AMOUNTS, *aliases.OPTIONS) if row.key.startswith(names.GROUP)]


def test_options_stand_for_annotations_of_berth() -> None:
    """Every key that says which devices means annotations that Berth has."""
    known = {value for value in vars(names).values() if isinstance(value, str)}

    assert {key for row in aliases.OPTIONS for key in row.means} <= known


def test_slices_are_of_projects_that_say_each() -> None:
    """Who counts cards in one key and measures each in another has a row that says how."""
    assert {row.project for row in aliases.AMOUNTS if row.each} == {row.project for row in aliases.SLICES}


@pytest.mark.parametrize("way", aliases.SLICES, ids=lambda way: way.project)
def test_slices_are_counted_by_a_key_that_is_known(way: aliases.Slices) -> None:
    """The key that counts the cards is one that asks for cards by itself."""
    assert aliases.is_served(way.count) or way.count in {row.key for row in aliases.ON_PODS}


@pytest.mark.parametrize(
    ("name", "served"),
    [
        pytest.param(names.NVIDIA_GPU, True, id="cards"),
        pytest.param(names.NVIDIA_GPU_SHARED, True, id="replicas"),
        pytest.param(names.GPU, True, id="cards in percent"),
        pytest.param(names.FPGA, True, id="a device of another type"),
        pytest.param("nvidia.com/mig-3g.40gb", True, id="an instance"),
        pytest.param("koordinator.sh/gpu-core", True, id="another project's name"),
        pytest.param("kubernetes.io/gpu", True, id="another project's deprecated name"),
        pytest.param("nvidia.com/priority", True, id="a name that is left alone"),
        pytest.param("cpu", False, id="cpu"),
        pytest.param("amd.com/gpu", False, id="another maker's card"),
        pytest.param("genius/gpu-number", False, id="a label"),
    ],
)
def test_served(name: str, served: bool) -> None:  # noqa: FBT001  a column of the table
    """Berth answers for its own names, for NVIDIA's and for their aliases, and for no other."""
    assert aliases.is_served(name) is served


def test_kinds_are_not_served() -> None:
    """No name is both served and refused as another kind."""
    both = [name for name in (*aliases.OWN, *aliases.RESOURCES) if aliases.is_unserved_kind(name)]

    assert both == []


def test_manual_shows_every_key() -> None:
    """The table for the manual has a row for each key, with as many columns as its head."""
    lines = aliases.markdown().splitlines()

    assert len({line.count(" | ") for line in lines}) == 1
    for key in (*(row.key for row in (*aliases.AMOUNTS, *aliases.OPTIONS)), aliases.KAI_CONTAINER):
        assert sum(f"`{key}`" in line.split(" | ")[1] for line in lines) >= 1
    assert len(lines) == 2 + len(aliases.AMOUNTS) + len(aliases.OPTIONS) + 1 + len(aliases.KUBEGPU_RECORDS)


def test_manual_says_what_a_key_stands_for() -> None:
    """A reader learns the unit, and whether a figure is of each card."""
    table = aliases.markdown()

    assert "| HAMi | `nvidia.com/gpumem` | resource | `berth.dev/gpu-memory` | MiB; of each card;" in table
    assert "| gpushare | `aliyun.com/gpu-mem` | resource | `berth.dev/gpu-memory` | GiB |" in table
    assert "| caden2016 | `nvidia-gpu-scheduler/gpu.model` | annotation | `berth.dev/model` |  |" in table


def test_places_are_few() -> None:
    """Keys stand in resources, annotations and labels; every place is used."""
    assert {row.where for row in (*aliases.AMOUNTS, *aliases.OPTIONS)} == {*Where}


def test_the_manual_page_shows_the_table() -> None:
    """The page of aliases is what the data says."""
    page = (Path(__file__).resolve().parents[2] / "manifests" / "aliases.md").read_text()

    assert aliases.markdown().strip() in page
    assert aliases.markdown_of_gangs().strip() in page
    assert requirements.markdown().strip() in page


def test_a_key_of_a_group_stands_for_nothing_else() -> None:
    """Each has one row, which says when it is refused, and no key means devices, too."""
    keys = [key for gang in aliases.GANGS for key in gang.keys]
    shown = aliases.markdown_of_gangs().splitlines()[2:]

    assert len(keys) == len({*keys}) == len(shown)
    assert not {row.key for row in (*aliases.AMOUNTS, *aliases.OPTIONS)} & {*keys}


def test_what_is_required_stands_for_nothing_else() -> None:
    """A key that is refused is read in no other way."""
    rows = (*aliases.AMOUNTS, *aliases.OPTIONS)

    assert len(requirements.KEYS) == len(requirements.REQUIREMENTS)
    assert not requirements.KEYS & ({row.key for row in rows} | aliases.GANG_KEYS)


def test_what_is_served_of_many_names_is_what_is_served_of_each() -> None:
    """All at once and one by one, the same names are served."""
    found = ["cpu", "example.com/x", "nvidia.com/mig-1g.5gb", *(one.key for one in aliases.AMOUNTS)]

    assert aliases.all_served(found) == set(filter(aliases.is_served, found))
