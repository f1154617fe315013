"""The same input gives the same output, byte for byte; what was printed can be read again."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.simulation import files, placing
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.scenario import Scenario
from simulation import simulator
from support import thorough

pytestmark = [
    pytest.mark.slow,  # Whole programs, again and again.
    pytest.mark.usefixtures("unhurried"),
]

PROPERTY: Final = hypothesis.settings(
    max_examples=thorough.examples(100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
SHAPES: Final = ("1xT4", "2xL4", "4xT4", "4xV100-SXM2-32GB", "8xA100-SXM4-80GB", "2xT4+1xL4")
LIMITS: Final[tuple[dict[str, Any], ...]] = (
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 2},
    {"nvidia.com/gpu": 4},
    {"berth.dev/gpu": 30},
    {"berth.dev/gpu": 50},
    {"berth.dev/gpu-memory": "5Gi"},
    {"berth.dev/gpu-core": 20, "berth.dev/gpu-memory": "7G"},
    {"berth.dev/gpu.shared": 2, "berth.dev/gpu-memory-ratio": 60},
    {"nvidia.com/mig-1g.10gb": 1},
    {"berth.dev/gpu": 150},
    {"cpu": "3"},
    {"cpu": "100"},
)
WISHES: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {names.MODEL: "T4"},
    {names.AVOID_MODEL: "T4"},
    {names.SCOPE: "nvlink"},
    {names.SCOPE: "numa", names.SCOPE_POLICY: "preferred"},
    {names.STRATEGY: "spread"},
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> simulator.Body:
    """Return a pod, sometimes of two containers and an init container."""
    made = simulator.pod(
        name,
        draw(st.sampled_from(LIMITS)),
        annotations=draw(st.sampled_from(WISHES)),
        priority=draw(st.sampled_from([0, 0, 10])),
    )
    more = draw(st.lists(st.sampled_from(LIMITS), max_size=2))
    listed = [{"name": f"c{at}", "resources": {"limits": limits}} for at, limits in enumerate(more)]
    made["spec"]["containers"] += listed[:1]
    made["spec"]["initContainers"] = listed[1:]
    return made


@st.composite
def clusters(draw: st.DrawFn) -> list[simulator.Body]:
    """Return nodes and their Devices, some of them without the other."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
    return [one for at, shape in enumerate(shapes) for one in simulator.both(f"n{at}", shape)]


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[simulator.Body], list[simulator.Body]]:
    """Return a cluster and pods."""
    count = draw(st.integers(0, 8))
    return draw(clusters()), [draw(pods(f"p{at}")) for at in range(count)]


def json_of(*objects: simulator.Body) -> str:
    """Place these and give what is printed as JSON."""
    return simulator.run_on(objects, "-o", "json").out


@hypothesis.given(scenes(), st.randoms(use_true_random=False))
@PROPERTY
def test_order_of_nodes(
    scene: tuple[list[simulator.Body], list[simulator.Body]], chance: random.Random
) -> None:
    """In which order nodes and Devices are given, and where the pods stand among them, matters to nobody."""
    nodes, wanted = scene
    usual = json_of(*nodes, *wanted)
    chance.shuffle(nodes)
    mixed = [*nodes]
    places = sorted(chance.randrange(len(mixed) + 1) for _ in wanted)
    for number, (place, pod) in enumerate(zip(places, wanted, strict=True)):
        mixed.insert(place + number, pod)

    assert json_of(*mixed) == usual


def picture(objects: Sequence[simulator.Body]) -> tuple[dict[str, Any], list[placing.Outcome]]:
    """Place these and give what every pod then holds, and what became of those that were placed."""
    scenario, cluster = Scenario(), Cluster()
    scenario.add(files.of_text(simulator.written(*objects), "given"))
    outcomes, _, notes = placing.place(scenario, cluster)
    assert notes == []
    return {uid: hold for info in cluster.inventory.each() for uid, hold in info.holds.items()}, outcomes


@hypothesis.given(scenes())
@PROPERTY
def test_fed_back(scene: tuple[list[simulator.Body], list[simulator.Body]]) -> None:
    """Pods printed as bound and read again hold the same, and nothing new is placed."""
    nodes, wanted = scene
    bound = simulator.run("place", "-", "-o", "yaml", stdin=simulator.written(*nodes, *wanted))
    again = [document.value for document in files.of_text(bound.out, "bound")]

    holds, outcomes = picture([*nodes, *wanted])
    holds_again, outcomes_again = picture([*nodes, *again])
    assert holds_again == holds
    assert [type(one) for one in outcomes_again] == [
        type(one) for one in outcomes if not isinstance(one, placing.Placed)
    ]
    once_more = simulator.run("place", "-", "-o", "yaml", stdin=simulator.written(*nodes, *again))
    assert once_more.out == bound.out


@hypothesis.given(scenes())
@PROPERTY
def test_promises(scene: tuple[list[simulator.Body], list[simulator.Body]]) -> None:
    """No card is given out above its capacity, and each pod's devices are of its node."""
    nodes, wanted = scene
    holds, _ = picture([*nodes, *wanted])
    cards = {
        card["uuid"]: (node["metadata"]["name"], card["memory"])
        for node in nodes
        if node["kind"] == "Device"
        for card in node["spec"]["devices"]
    }

    used: dict[str, tuple[int, int]] = {}
    for hold in holds.values():
        for share in hold.shares:
            assert cards[share.uuid][0] == hold.node
            core, memory = used.get(share.uuid, (0, 0))
            used[share.uuid] = core + share.core, memory + share.memory
    assert all(core <= 100 and memory <= cards[uuid][1] for uuid, (core, memory) in used.items())


IN_EACH_FORM: Final = """
import sys
from berth_operator.simulation import __main__
for form in "text", "json", "yaml":
    __main__.main(["place", "-o", form, *sys.argv[1:]])
"""


def test_hash_seed() -> None:
    """Two processes print the same bytes, whatever Python's hashes."""
    folders = [simulator.EXAMPLES / "cluster", simulator.EXAMPLES / "pods"]
    printed = [
        subprocess.run(
            [sys.executable, "-c", IN_EACH_FORM, *folders],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    ]

    assert printed[0] == printed[1] != b""


def test_names_of_files(tmp_path: Path) -> None:
    """How the input is cut into files changes nothing."""
    nodes, wanted = simulator.both("n1"), [simulator.pod("a"), simulator.pod("b", {"nvidia.com/gpu": 4})]
    parts = [simulator.save(tmp_path / f"{at}.yaml", one) for at, one in enumerate((*nodes, *wanted))]

    answer = simulator.run("place", "-o", "json", *parts)
    assert answer.out == json_of(*nodes, *wanted)
