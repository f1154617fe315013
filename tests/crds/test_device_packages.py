"""Packages add types of device by entry points; one that cannot be used is named, and harms nobody."""

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_crds import aliases, device_packages, device_types, flags, names
from support import device_package

NPU = device_types.TypeDescription(name="npu", resource="example.com/npu")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget after each test what it added."""
    with device_package.added():
        yield


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder on Python's search path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def put(site: Path, module: str, text: str, *names_: str) -> None:
    """Install a module, and a package whose entry points name things in it."""
    (site / f"{module}.py").write_text(text)
    device_package.listed(site, f"berth-{module}", {name: f"{module}:{name.upper()}" for name in names_})


def described(**fields: object) -> str:
    """Return a module that describes a type as NPU, but for these fields."""
    values = {"name": "npu", "resource": "example.com/npu"} | fields
    text = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return f"from berth_crds.device_types import TypeDescription\nNPU = TypeDescription({text})\n"


# ---------------------------------------------------------------- what is loaded


def test_the_example_is_loaded_by_its_entry_point(site: Path) -> None:
    """Its resource is served from then on, also where it was of a maker that Berth does not serve."""
    device_package.installed(site)

    assert device_packages.load(device_packages.USUAL) == ()

    found = device_types.BY_NAME["npu-x"]
    assert (found.resource, found.noun(1), found.noun(3)) == (
        "example.com/npu",
        "NPU X of Example",
        "NPUs X of Example",
    )
    assert aliases.is_served("example.com/npu")
    assert aliases.all_served(["example.com/npu", "example.com/other"]) == {"example.com/npu"}


def test_a_package_may_serve_what_berth_does_not() -> None:
    """Such as the devices of another maker of GPUs."""
    assert aliases.is_unserved_kind("amd.com/gpu")

    with device_package.added(dataclasses.replace(NPU, resource="amd.com/gpu")):
        assert not aliases.is_unserved_kind("amd.com/gpu")
        assert aliases.is_served("amd.com/gpu")


def test_only_what_is_chosen_is_loaded(site: Path) -> None:
    """By the names of entry points, or nothing."""
    put(site, "first", described(), "npu")
    put(site, "second", "raise RuntimeError", "other")

    assert device_packages.load(device_packages.choice("none")) == ()
    assert "npu" not in device_types.BY_NAME
    assert device_packages.load(device_packages.choice("npu")) == ()
    assert "npu" in device_types.BY_NAME


@pytest.mark.parametrize("text", ["", ",", "all,npu", "none,npu"])
def test_a_choice_that_says_nothing_is_refused(text: str) -> None:
    """Or two things at once."""
    with pytest.raises(argparse.ArgumentTypeError, match="is neither all nor none nor names"):
        device_packages.choice(text)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        pytest.param("import nothing_of_that_name", "ModuleNotFoundError: No module named", id="import"),
        pytest.param("raise RuntimeError('no licence')", "RuntimeError: no licence", id="raises"),
        pytest.param("import sys; sys.exit('bye')", "SystemExit: bye", id="exits"),
        pytest.param("NPU = 'npu'", "its entry point is no TypeDescription but 'str'", id="a text"),
        pytest.param("OTHER = 1", "AttributeError: module", id="not there"),
        pytest.param("NPU = (", "SyntaxError", id="no Python"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_passed_over(site: Path, module: str, why: str) -> None:
    """With one sentence; the others are loaded. Who named it is refused the start."""
    put(site, "broken", module, "npu")
    device_package.installed(site)

    (sentence,) = device_packages.load(device_packages.USUAL)

    assert sentence.startswith("The type of device npu of the package berth-broken is not used: ")
    assert why in sentence
    assert {"npu", "npu-x"} & {*device_types.BY_NAME} == {"npu-x"}
    with pytest.raises(flags.UsageError, match="--device-packages: The type of device npu of the package"):
        device_packages.load(("npu",))


def test_an_entry_point_that_is_not_there_is_refused(site: Path) -> None:
    """Where it was named."""
    device_package.installed(site)

    with pytest.raises(flags.UsageError, match="no installed package has an entry point 'npu-y'"):
        device_packages.load(("npu-x", "npu-y"))


def test_of_two_with_one_resource_the_first_by_name_counts(site: Path) -> None:
    """Whichever Python finds first."""
    put(site, "zeta", described(name="zeta"), "npu")
    device_package.installed(site)

    (sentence,) = device_packages.load(device_packages.USUAL)

    assert (
        "npu-x of the package berth-npu-x is not used: the resource 'example.com/npu' is that of" in sentence
    )
    assert device_types.BY_RESOURCE["example.com/npu"].name == "zeta"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a built-in type": ({"name": "rdma"}, "the name 'rdma' is that of another type already"),
    "the type of cards": ({"name": "gpu"}, "the name 'gpu' has another meaning in Berth"),
    "a key of annotations": ({"name": "uuids"}, "'uuids' has another meaning"),
    "what cards are counted as": ({"name": "cards"}, "'cards' has another meaning"),
    "a list of functions": ({"name": "npu-vfs"}, "'npu-vfs' has another meaning"),
    "uuids like another's": ({"name": "rdma-x"}, "the uuids of 'rdma-x' and of the type 'rdma' could not be"),
    "capitals": ({"name": "NPU"}, "the name 'NPU' is not of at most 40 lowercase letters"),
    "long": ({"name": "n" * 41}, "is not of at most 40"),
    "no text": ({"name": 7}, "are not all texts"),
    "our own resource": ({"resource": f"{names.GROUP}/npu"}, "is under a name that is not the package's own"),
    "Kubernetes' resource": ({"resource": "kubernetes.io/npu"}, "is under a name that is not"),
    "a resource of NVIDIA's": ({"resource": names.NVIDIA_GPU}, "has another meaning in Berth"),
    "a resource of MIG": ({"resource": "nvidia.com/mig-1g.5gb"}, "has another meaning in Berth"),
    "an alias": ({"resource": "koordinator.sh/gpu"}, "has another meaning in Berth"),
    "no prefix": ({"resource": "npu"}, "the resource 'npu' is not like example.com/npu"),
    "a path": ({"resource": "example.com/a/b"}, "is not like example.com/npu"),
    "words on two lines": ({"plural": "a\nb"}, "is no line of at most 80 characters"),
    "many words": ({"singular": "n" * 81}, "is no line of at most 80 characters"),
    "shared perhaps": ({"shared": "yes"}, "its field shared is neither True nor False"),
    "a source by name": ({"source": "npu_x:Source"}, "its source cannot be called"),
}


@pytest.mark.parametrize(("fields", "why"), WRONG.values(), ids=WRONG)
def test_a_type_that_does_not_go_with_the_others_is_refused(fields: dict[str, Any], why: str) -> None:
    """By a clause that says what is in the way."""
    assert why in device_packages.fault(dataclasses.replace(NPU, **fields))


def test_a_type_is_refused_whose_name_begins_another() -> None:
    """In either order, because uuids begin with the name of the type."""
    assert device_packages.fault(NPU) == ""

    with device_package.added(dataclasses.replace(NPU, name="npu-x", resource="example.com/x")):
        assert "the uuids of 'npu' and of the type 'npu-x'" in device_packages.fault(NPU)


def test_there_is_a_most_of_types() -> None:
    """Each is looked for at each tick."""
    many = [device_types.TypeDescription(name=f"t{at}", resource=f"example.com/t{at}") for at in range(16)]

    with device_package.added(*many):
        assert device_packages.fault(NPU) == "16 types are added already, which is the most"


LIGHT = """
import sys
from berth_crds import device_packages
print(device_packages.load(device_packages.USUAL), "importlib.metadata" in sys.modules)
"""


@pytest.mark.parametrize("is_there", [False, True], ids=["no package", "a package"])
def test_without_packages_nothing_is_imported(tmp_path: Path, *, is_there: bool) -> None:
    """What reads the metadata of packages takes memory that an agent spares."""
    if is_there:
        device_package.installed(tmp_path)
    path = os.pathsep.join([*filter(None, sys.path), str(tmp_path)])

    ended = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, env={"PYTHONPATH": path}, check=True
    )

    assert ended.stdout == f"() {is_there}\n"
