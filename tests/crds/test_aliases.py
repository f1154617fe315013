"""The tables of other projects' names: complete, without contradictions, and shown to people."""

import collections
from pathlib import Path

import pytest

from berth_crds import aliases, names, requirements

ROWS = (*aliases.AMOUNTS, *aliases.OPTIONS)


def test_a_key_stands_for_one_thing_in_one_place() -> None:
    """No two rows read the same key in the same place, and no key that is refused is read in another way."""
    places = collections.Counter((row.where, row.key) for row in ROWS)
    read = {row.key for row in ROWS}
    gangs = [key for gang in aliases.GANGS for key in gang.keys]

    assert [place for place, count in places.items() if count > 1] == []
    assert {where for where, _ in places} == {*aliases.Where}, "every place is used"
    assert len({*gangs, *requirements.KEYS}) == len(gangs) + len(requirements.REQUIREMENTS)
    assert not read & {*gangs, *requirements.KEYS}


def test_rows_stand_for_names_of_berth() -> None:
    """What asks for devices means a resource of Berth or nothing, what chooses them an annotation."""
    annotations = {value for value in vars(names).values() if isinstance(value, str)}

    assert {row.means for row in aliases.AMOUNTS} <= {*aliases.OWN, aliases.NOTHING}
    assert {key for row in aliases.OPTIONS for key in row.means} <= annotations


def test_no_alias_is_a_name_of_our_own() -> None:
    """An alias that is Berth's own name would mean two things."""
    assert not {*aliases.RESOURCES} & {*aliases.OWN}
    assert not [row.key for row in ROWS if row.key.startswith(names.GROUP)]


def test_slices_are_of_projects_with_amounts_of_each_card() -> None:
    """Who counts cards in one key and measures each in another has a row for how, and a key that counts."""
    counting = {row.key for row in aliases.ON_PODS}

    assert {row.project for row in aliases.AMOUNTS if row.each} == {row.project for row in aliases.SLICES}
    assert all(aliases.is_served(way.count) or way.count in counting for way in aliases.SLICES)


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


def test_what_is_served_of_many_names_is_what_is_served_of_each() -> None:
    """All at once and one by one, the same names are served, and none is refused as another kind."""
    found = ["cpu", "example.com/x", "nvidia.com/mig-1g.5gb", *aliases.OWN, *(row.key for row in ROWS)]

    served = aliases.all_served(found)

    assert served == set(filter(aliases.is_served, found))
    assert not any(map(aliases.is_unserved_kind, served))


def manual_rows(columns: int) -> list[list[str]]:
    """Return the rows of the manual's tables that have so many columns."""
    page = (Path(__file__).resolve().parents[2] / "manifests" / "aliases.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [row for row in rows if len(row) == columns and row[0] not in {"Written for", "---"}]


def shown(*keys: str) -> str:
    """Return keys as the manual shows them."""
    return " ".join(f"`{key}`" for key in keys if key) or "-"


def test_the_manual_says_what_each_key_stands_for() -> None:
    """It has one row for each key, and says in which unit an amount is, and whether it is of each card."""
    units = {1: "", 100: "times 100; ", aliases.MIB: "MiB", aliases.GIB: "GiB"}
    amounts = {
        (one.project, shown(one.key), str(one.where), shown(one.means)): one for one in aliases.AMOUNTS
    }
    options = {(one.project, shown(one.key), str(one.where), shown(*one.means)) for one in aliases.OPTIONS}
    records = {
        (aliases.KUBEGPU, shown(key), "annotation", "`nvidia.com/gpu`") for key in aliases.KUBEGPU_RECORDS
    }
    container = aliases.KAI, shown(aliases.KAI_CONTAINER), "annotation", "-"

    rows = {(project, key, where, means): how for project, key, where, means, how in manual_rows(5)}

    assert rows.keys() == amounts.keys() | options | records | {container}
    for row, amount in amounts.items():
        assert rows[row].startswith(units[amount.scale])
        assert ("of each card" in rows[row]) is amount.each


def test_the_manual_names_each_key_that_is_refused() -> None:
    """It has one row for each key of a group, which says when it is refused, and for each requirement."""
    gangs = {
        (gang.project, f"`{key}`", f"unless `{gang.size}` is 1" if gang.size else "always")
        for gang in aliases.GANGS
        for key in gang.names
    }
    sizes = {(gang.project, f"`{gang.size}`", "if it is more than 1") for gang in aliases.GANGS if gang.size}
    required = {(one.project, shown(one.key), str(one.where)): one for one in requirements.REQUIREMENTS}

    assert {*map(tuple, manual_rows(3))} == gangs | sizes
    assert len(manual_rows(3)) == sum(len(gang.keys) for gang in aliases.GANGS)
    assert {(project, key, where) for project, key, where, _ in manual_rows(4)} == required.keys()
    for project, key, where, refused in manual_rows(4):
        one = required[project, key, where]
        words = one.harmless.union(one.fields, *filter(None, one.fields.values()))
        assert set(refused.split("`")[1::2]) == words
        assert (refused == "always") is (not words)
