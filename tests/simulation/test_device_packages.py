"""The example of the page on devices of other makers is what is tested, and its pod is placed by it."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from simulation import simulator
from support import device_package, manifests

PAGE: Final = (simulator.ROOT / "manifests" / "plug-ins.md").read_text()
MAIN: Final = f"main{names.CONTAINER_INFIX}npu-x"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder on the search path, and forget afterwards what was loaded."""
    monkeypatch.syspath_prepend(str(tmp_path))
    with device_package.added():
        yield tmp_path
    for module in ("npu_x", "npu_x_source", "broken"):
        sys.modules.pop(module, None)


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def device(count: int = 2, **status: object) -> dict[str, Any]:
    """Return a Device of so many NPUs X."""
    listed = [{"uuid": f"npu-x-{at}", "type": "npu-x", "minor": at, "model": "NPU X"} for at in range(count)]
    found = manifests.own("Device", "n1", spec={"node": "n1", "devices": listed})
    return found | ({"status": status} if status else {})


def pod(count: int, name: str = "p", **limits: object) -> dict[str, Any]:
    """Return a pod that asks for so many."""
    return manifests.pod(name, {"example.com/npu": str(count)} | limits, namespace="ml")


def test_the_page_has_the_example_whole() -> None:
    """As it is installed by tests."""
    files = {path.name: path.read_text() for path in device_package.NPU_X.iterdir() if path.is_file()}

    assert [*blocks("toml"), *blocks("python")] == [
        files[name] for name in ("pyproject.toml", "npu_x.py", "npu_x_source.py")
    ]


def test_the_pod_of_the_page_is_placed(site: Path) -> None:
    """And gets a device under its own type; no GPU."""
    device_package.installed(site)
    (asking,) = map(yaml.safe_load, blocks("yaml"))
    asking["metadata"]["namespace"] = "ml"

    words = [manifests.node(), device(), asking]
    printed = simulator.run_on(words, "-o", "yaml").out

    bound = next(one for one in yaml.safe_load_all(printed) if one["kind"] == "Pod")
    said = bound["metadata"]["annotations"]
    assert said[MAIN] == "npu-x-0"
    assert said[names.container_key("main", "uuids")] == names.NO_CARDS
    assert json.loads(said[names.ALLOCATION])["containers"] == {
        "main": {"npu-x": [{"uuid": "npu-x-0", "minor": 0, "core": 100, "memory": 0}]}
    }


def test_who_asks_for_too_many_is_told_in_the_words_of_the_package(site: Path) -> None:
    """As is one that asks for less than one, or for more than any node may have."""
    device_package.installed(site)
    pods = [pod(3, "three"), pod(99, "many"), pod(1, "half")]
    pods[2]["spec"]["containers"][0]["resources"]["limits"]["example.com/npu"] = "500m"

    told = simulator.run_on([manifests.node(), device(), *pods]).out

    assert "1 has too few NPUs X of Example" in told
    assert "would fit on 1 node if it asked for 2 instead of 3 NPUs X of Example" in told
    assert "example.com/npu: 99 is 99 NPUs X of Example; no node has more than 64" in told
    assert "example.com/npu: 500m is not a number of NPUs X of Example" in told


def test_each_device_is_given_once(site: Path) -> None:
    """Whatever else a pod asks for, and though a container that ended lends its own."""
    device_package.installed(site)
    pods = [pod(1, "a"), pod(1, "b"), pod(1, "c")]
    pods[0]["spec"]["initContainers"] = [pods[0]["spec"]["containers"][0] | {"name": "early"}]

    found = simulator.place(manifests.node(), device(), *pods)

    assert [one["node"] for one in found] == ["n1", "n1", None]


def test_a_node_without_the_runtimes_plugin_gets_no_such_pod(site: Path) -> None:
    """Its container would start without its device; what to do about it is said."""
    device_package.installed(site)
    reported = {"type": "EnvReady", "status": "True", "reason": "R", "message": ""}
    words = [manifests.node(), device(conditions=[reported]), pod(1)]

    told = simulator.run_on(words).out

    assert "no way to give containers their NPUs X of Example, for which the agent needs --nri" in told
    reported["type"] = "NRIReady"
    assert simulator.place(*words)[0]["node"] == "n1"


def test_without_the_package_its_pods_wait() -> None:
    """The resource is one that no node has."""
    # Berth remembers how it read a pod, and in this process the package was there before.
    told = simulator.run_on([manifests.node(), device(), pod(1, cpu="1")]).out

    assert "1 has insufficient example.com/npu" in told


def test_a_package_that_cannot_be_loaded_is_noted(site: Path) -> None:
    """On standard error; who named it gets no answer."""
    (site / "broken.py").write_text("raise RuntimeError('no licence')")
    device_package.listed(site, "berth-broken", {"broken": "broken:X"})
    answer = simulator.run("place", "-", stdin=simulator.written(manifests.node(), pod(1)))
    refused = simulator.run("place", "-", "--device-packages", "broken", stdin="")

    sentence = "The type of device broken of the package berth-broken is not used: RuntimeError: no licence."
    assert (answer.code, answer.notes) == (0, f"berth-simulation: {sentence}\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.notes == f"berth-simulation: --device-packages: {sentence}\n"
