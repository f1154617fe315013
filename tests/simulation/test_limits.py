"""The page of limits is true: each line of its tables is tried as it stands there."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_agent import metrics
from berth_crds import names
from simulation import simulator

PAGE: Final = (simulator.ROOT / "manifests" / "limits.md").read_text()
Body = dict[str, Any]


def lines(section: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    found = re.findall(r"^\| (.*) \|$", PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in one.split(" | ")] for one in found[1:]]


def pod_of(cell: str, name: str = "p") -> Body:
    """Return a pod of ours with what a cell says in it."""
    fields: Body = yaml.safe_load(cell.strip("`"))
    assert fields.keys() <= {"spec", "container", "limits", "annotations", "labels"}
    pod = simulator.pod(
        name,
        fields.get("limits", 1),
        annotations=fields.get("annotations", {}),
        meta={"labels": fields.get("labels", {})},
        **fields.get("spec", {}),
    )
    pod["spec"]["containers"][0].update(fields.get("container", {}))
    return pod


REFUSED: Final = lines("Refused with a sentence")
PASSED_OVER: Final = lines("Passed over")


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line[0])
def test_what_is_refused_is_told_in_these_words(line: list[str]) -> None:
    """A pod with it, which would fit without it, waits, and its sentence is that of the page."""
    cell, sentence = line

    [answer] = simulator.place(*simulator.both(), pod_of(cell))

    assert answer["node"] is None
    assert any(sentence.strip("`") in refusal["message"] for refusal in answer["refusals"])


# Two nodes alike but for their zone; who asks for nothing more comes to the one in zone a.
ZONES: Final = (
    simulator.node("n1", labels={"zone": "a"}),
    simulator.device("n1"),
    simulator.node("n2", labels={"zone": "b"}),
    simulator.device("n2"),
    simulator.pod("web", {}, meta={"uid": "u1", "labels": {"app": "web"}}, nodeName="n1", phase="Running"),
    simulator.pod("db", {}, meta={"uid": "u2", "labels": {"app": "db"}}, nodeName="n2", phase="Running"),
)


@pytest.mark.parametrize("line", PASSED_OVER, ids=lambda line: line[0])
def test_what_is_passed_over_changes_nothing(line: list[str]) -> None:
    """A pod with it is placed where it would be without it, though its wish points elsewhere."""
    plain = simulator.place(*ZONES, simulator.pod("p"))
    wishing = simulator.place(*ZONES, pod_of(line[0]))

    assert simulator.nodes(plain) == {"ml/p": "n1"}
    assert wishing == plain


# ---------------------------------------------------------------- lines in words


def shown(*objects: Body) -> dict[str, Body]:
    """Place pods and return all as they would be, by name."""
    answer = simulator.run_on(objects, "-o", "yaml")
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(answer.out) if one}


def nodes(*objects: Body) -> dict[str, str | None]:
    """Place pods and return the node of each."""
    return simulator.nodes(simulator.place(*objects))


def preemption() -> None:
    """The cards are full of what is least important, and the most important pod waits."""
    known = simulator.priority("low", -1), simulator.priority("high", 1000), *simulator.both()
    small = shown(*known, simulator.pod("small", 4, priorityClassName="low"))["small"]
    assert small["spec"]["nodeName"] == "n1"
    assert nodes(*known, small, simulator.pod("large", priorityClassName="high")) == {"ml/large": None}


def gangs() -> None:
    """Of two pods that need each other one is placed, though the other does not fit."""
    pods = simulator.pod("a", 3), simulator.pod("b", 3)
    assert nodes(*simulator.both(), *pods) == {"ml/a": "n1", "ml/b": None}


def cutting() -> None:
    """A card that could be cut is not."""
    wanting = simulator.pod("p", {"nvidia.com/mig-1g.10gb": 1})
    assert nodes(*simulator.both("n1", "1xA100-SXM4-80GB"), wanting) == {"ml/p": None}


def inline() -> None:
    """Two pods with a disk each are on a node that can attach one."""
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}}
    driver = {"name": "pd.csi.storage.gke.io", "nodeID": "n1", "allocatable": {"count": 1}}
    disks = ([{"name": "d", "gcePersistentDisk": {"pdName": name}}] for name in "ab")
    pods = (simulator.pod(name, volumes=disk) for name, disk in zip("ab", disks, strict=True))
    found = nodes(*simulator.both(), kind | {"spec": {"drivers": [driver]}}, *pods)
    assert found == {"ml/a": "n1", "ml/b": "n1"}


def shares() -> None:
    """What is promised stands in the annotations, and nothing else in the pod is changed."""
    asked = [simulator.pod(name, {"berth.dev/gpu": part}) for name, part in (("a", 40), ("b", 60), ("c", 1))]
    found = shown(*simulator.both("n1", "1xT4"), *asked)
    annotations = [found[name]["metadata"]["annotations"] for name in "abc"]
    assert [one.get("main.devices.berth.dev/core") for one in annotations] == ["40", "60", None]
    assert int(annotations[0]["main.devices.berth.dev/memory"]) > 0
    assert found["a"]["spec"] == {**asked[0]["spec"], "nodeName": "n1"}


def seen() -> None:
    """The annotation says it. No environment is added by Berth itself: that is the API server's part."""
    found = shown(*simulator.both(), simulator.pod("p"))["p"]
    assert found["metadata"]["annotations"]["main.devices.berth.dev/uuids"].startswith("GPU-")
    assert "env" not in found["spec"]["containers"][0]


def forced() -> None:
    """What was deleted is gone, and the next pod is placed in the same moment."""
    trace = [
        *({"at": 0, "apply": one} for one in simulator.both()),
        {"at": 0, "add": simulator.pod("a", 4)},
        {"at": 1, "add": simulator.pod("b", 4)},
        {"at": 2, "delete": "ml/a"},
    ]
    lines = simulator.run("replay", "-", "-o", "json", stdin="\n".join(map(json.dumps, trace))).objects
    placed = [(line["at"], line["pod"]) for line in lines if line["event"] == "placed"]
    assert placed == [(0, "ml/a"), (2, "ml/b")]


def uncounted() -> None:
    """Pods that ask by a label or by annotations get cards, and have no resource that a quota counts."""
    words = (
        {"meta": {"labels": {"genius/gpu-number": "2"}}},
        {"annotations": {"gpu-fraction": "1", "gpu-fraction-num-devices": "2"}},
    )
    for said in words:
        asking = simulator.pod("p", {}, **said)
        found = shown(*simulator.both(), asking)["p"]
        assert found["metadata"]["annotations"][names.container_key("main", "uuids")].count("GPU-") == 2
        assert found["spec"]["containers"][0]["resources"] == {"limits": {}}


def others() -> None:
    """A pod that another scheduler bound keeps what it asks for, and the rest is given out."""
    theirs = simulator.pod("theirs", 3, meta={"uid": "u"}, schedulerName="other", nodeName="n1")
    found = nodes(
        simulator.advertising(4), simulator.device(), theirs, simulator.pod("p1"), simulator.pod("p2")
    )
    assert (found["ml/p1"], found["ml/p2"]) == ("n1", None)


def leaving() -> None:
    """A pod that is to go, and does not, keeps its cards from others."""
    meta = {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    theirs = simulator.pod("theirs", 3, meta=meta, schedulerName="other", nodeName="n1")
    found = nodes(
        simulator.advertising(4), simulator.device(), theirs, simulator.pod("p1"), simulator.pod("p2")
    )
    assert (found["ml/p1"], found["ml/p2"]) == ("n1", None)


def driver() -> None:
    """Without a driver's library the agent lives, and says so."""
    script = (
        "import ctypes, unittest.mock as mock\n"
        "from berth_agent import sysfs; from berth_agent.nvml import nvml_probe\n"
        "with mock.patch.object(ctypes, 'CDLL', side_effect=OSError('no such file')): "
        "print(nvml_probe.NvmlProbe(sysfs.Kernel()).sample())"
    )
    assert "LibraryMissing" in subprocess.check_output([sys.executable, "-c", script], text=True)


def toolkit() -> None:
    """The annotation that the API server feeds the environment from is there once the pod has a node."""
    policy = (simulator.ROOT / "manifests" / "env-delivery.yaml").read_text()
    assert f'c.name + "{names.container_key("", "uuids")}\']"' in policy
    [placed] = shown(*simulator.both(), simulator.pod("p", 2)).values()
    assert placed["metadata"]["annotations"][names.container_key("main", "uuids")].count("GPU-") == 2


def plugin() -> None:
    """The node's own count of `nvidia.com/gpu` counts beside the Device; Berth's own name is not counted."""
    pods = simulator.pod("theirs", 2), simulator.pod("ours", {"berth.dev/gpu": 200})
    assert nodes(simulator.advertising(1), simulator.device(), *pods) == {"ml/theirs": None, "ml/ours": "n1"}


def discovery() -> None:
    """A selector needs its label, and a model does not."""
    choosy = simulator.pod("selects", nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"})
    asking = simulator.pod("asks", annotations={"berth.dev/model": "T4"})
    assert nodes(*simulator.both(), choosy, asking) == {
        "ml/selects": None,
        "ml/asks": "n1",
    }


def exporter() -> None:
    """What both measure has one name."""
    measured = {f"{metrics.DCGM}{one.name}" for one in metrics.MEASURES}
    assert measured >= {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"}


def stock() -> None:
    """A pod of another scheduler is left to it."""
    theirs = simulator.pod("p", schedulerName="default-scheduler")
    assert nodes(*simulator.both(), theirs) == {"ml/p": None}


IN_WORDS: Final[dict[str, Callable[[], None]]] = {
    "preemption": preemption,
    "gangs": gangs,
    "limits of volumes without a claim": inline,
    "cutting cards": cutting,
    "the memory and compute of a share": shares,
    "which cards a container sees": seen,
    "a card whose pod was deleted by force": forced,
    "a quota of cards": uncounted,
    "pods of other schedulers": others,
    "that a pod leaves a silent node": leaving,
    "the driver": driver,
    "the container toolkit": toolkit,
    "NVIDIA's device plugin": plugin,
    "GPU feature discovery": discovery,
    "the DCGM exporter": exporter,
    "a scheduler of your own": stock,
}


@pytest.mark.parametrize("about", IN_WORDS)
def test_a_line_in_words_holds(about: str) -> None:
    """What it says happens."""
    IN_WORDS[about]()


def test_every_line_of_the_page_is_tried() -> None:
    """A line that is added is tried, too, and what is tried stands there."""
    tables = ("Not built yet", "Promised, not enforced", "What to keep beside Berth")
    listed = [cells[0].strip("*") for section in tables for cells in lines(section)]
    assert listed == list(IN_WORDS)
    assert len(re.findall(r"^\| ", PAGE, re.MULTILINE)) == len(listed) + len(REFUSED) + len(PASSED_OVER) + 5


def test_the_page_is_linked_from_where_people_begin() -> None:
    """The first screen of the README leads to it, and each of its own links leads somewhere."""
    readme = (simulator.ROOT / "README.md").read_text()
    assert "manifests/limits.md" in readme.split("\n## ")[0]
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGE):
        page: Path = simulator.ROOT / "manifests" / target
        heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        assert not anchor or anchor in {
            re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in heads
        }
