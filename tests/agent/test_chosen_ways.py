"""The ways of delivery that settings choose, and that no other agent pays for them."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agent.plugin_node import Pods, pod
from agent.test_settings import parse
from berth_agent import chosen_ways, way
from berth_agent.nri.messages import NewContainer

NRI = ["--nri=n.sock"]
MPS = ["--share-isolation=mps", "--mps-root=/m"]
PLUGIN = ["--kubelet-socket=k.sock", "--pod-resources=p.sock"]


def nothing_requested(_pod: tuple[str, str], _container: str) -> list[str]:
    """Return no resource."""
    return []


@pytest.mark.parametrize(
    ("words", "ways"),
    [
        pytest.param([], [], id="left to the environment"),
        pytest.param(NRI, ["NriPlugin", "SharesWatch"], id="the runtime's plugin"),
        pytest.param(["--cdi=/cdi"], ["CdiWriter"], id="a CDI spec"),
        pytest.param(PLUGIN, ["DevicePlugin"], id="the device plugin"),
        pytest.param(
            [*NRI, "--cdi=/cdi", *PLUGIN, *MPS],
            ["MpsDaemon", "NriPlugin", "CdiWriter", "DevicePlugin", "SharesWatch"],
            id="all of them, with MPS",
        ),
    ],
)
def test_each_way_is_made_where_it_is_chosen(words: list[str], ways: list[str]) -> None:
    """Those that are told of cards by others come after these."""
    access = way.NodeAccess(
        "n1", lambda: None, Pods(), nothing_requested, asyncio.Event(), on_change=lambda: None
    )
    makers = chosen_ways.makers(parse(*words), "n1", Path("/proc"), simulated=True)
    assert [type(make(access)).__name__ for make in makers] == ways


def test_what_a_container_requests_is_known_of_its_own_pod_alone() -> None:
    """Not by an earlier pod of its name, nor before its pod has come by the watch."""
    pods = Pods()
    pods.all.append(pod("p", {"nvidia.com/gpu": 1}, uid="u"))
    access = way.NodeAccess(
        "n1", lambda: None, pods, lambda _pod, _container: ["cpu"], asyncio.Event(), on_change=lambda: None
    )
    requested = chosen_ways._requested(access)

    container = NewContainer("ml", "p", "init", {}, pod_uid="u")
    assert requested(container) == ["cpu"]
    assert requested(container._replace(pod_uid="of the next")) is None


def test_an_agent_without_a_way_of_its_own_does_not_load_them() -> None:
    """They would take a good part of the memory that an idle agent has."""
    seen = "import sys, berth_agent.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", seen], capture_output=True, text=True, check=True
    ).stdout.split()
    ways = ("cdi", "device_plugin", "mps", "nri", "runtime_watch", "delivery")
    assert "berth_agent.way" in loaded
    assert not {f"berth_agent.{each}" for each in ways} & set(loaded)
