"""What a container on a real node sees, looked at from inside, and the pods that are looked into.

No driver of NVIDIA's is needed. Its device nodes are made by number: the kernel says of one that a container
may open that there is no such device, and of others that it is not permitted.
"""

import itertools
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from berth_crds import names
from e2e.conditions import condition
from e2e.stage import Stage, Thing
from testbed import images, nvidia_runtime, workers

MAJOR: Final = 195  # Of NVIDIA's devices.
ALLOWED, DENIED, ABSENT = "No such device or address", "Operation not permitted", "No such file or directory"
MOST_CARDS: Final = 4
OF_DRIVER: Final = {"nvidiactl": 255, "nvidia-uvm": 254}
LIBRARY: Final = "usr/lib/x86_64-linux-gnu/libcuda.so.1"
CARD_PATHS: Final = tuple(f"/dev/nvidia{minor}" for minor in range(MOST_CARDS))
LOADED: Final = "/usr/local/nvidia/lib64/libcuda.so.1"  # Where a container finds that library.
IMAGE: Final = {"image": images.CUDA, "imagePullPolicy": "Never"}


def make_driver(root: Path) -> None:
    """Make what a driver's installation has: its device nodes, and one of its libraries."""
    for name, minor in {**{f"nvidia{minor}": minor for minor in range(MOST_CARDS)}, **OF_DRIVER}.items():
        make_node(root, name, minor)
    (root / LIBRARY).parent.mkdir(parents=True)
    (root / LIBRARY).write_text("a library")


def make_node(root: Path, name: str, minor: int) -> None:
    """Make a device node of the driver."""
    path = root / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(MAJOR, minor))


def give_cards(worker: workers.Worker, minors: Mapping[str, int]) -> None:
    """Tell the runtime of a node, which plays NVIDIA's, of its cards and of the files of the driver."""
    library = worker.directory / LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    nvidia_runtime.give(worker.directory, minors, OF_DRIVER, {str(library): LOADED}, major=MAJOR)


def container(name: str, **limits: str) -> dict[str, Any]:
    """Return a container that asks for this, and whose image says that it sees all cards."""
    return {"name": name, "resources": {"limits": limits}} | IMAGE


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> Thing:
    """Return a pod of Berth's that a worker can run."""
    usual = {
        "schedulerName": names.SCHEDULER_NAME,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": list(containers),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": usual | spec}


def whole(name: str) -> dict[str, Any]:
    """Return a container that asks for one card."""
    return container(name, **{names.NVIDIA_GPU: "1"})


async def until_running(stage: Stage, *pods: str) -> None:
    """Wait until all containers of these pods run."""

    async def running() -> bool:
        now = await stage.pods()
        return all(condition(now[name], "Ready").get("status") == "True" for name in pods)

    await stage.until("all containers to run", running, seconds=60)


def records(stage: Stage) -> list[Thing]:
    """Return the GpuPods of the namespace."""
    group = f"/apis/{names.API_VERSION}/namespaces/{stage.namespace}"
    found: list[Thing] = stage.cluster.read(f"{group}/gpupods")["items"]
    return found


async def until_allocatable(stage: Stage, node: str, count: int, resource: str = names.NVIDIA_GPU) -> None:
    """Wait until the kubelet of a node would give so many devices."""

    async def offered() -> bool:
        found = stage.cluster.read_node(node)
        return int(found["status"].get("allocatable", {}).get(resource, 0)) == count

    await stage.until(f"{count} {resource} to be allocatable", offered, seconds=40)


class Inside:
    """What a container sees: its environment, the cards, what is at some paths, device nodes that it made.

    All of it is asked for at one go, for a command in a container is slow to start.
    """

    def __init__(
        self,
        stage: Stage,
        worker: workers.Worker,
        place: tuple[str, str],
        *paths: str,
        made: tuple[int, ...] = (),
    ) -> None:
        """Look into a container, by its pod and its name; it makes device nodes of the minors `made`."""
        making = [("and", "node", _made(minor), f"{MAJOR}", f"{minor}") for minor in made]
        words = ("open", *CARD_PATHS, *paths, *itertools.chain(*making), "and", "env")
        said = worker.run_in(stage.namespace, *place, "/pause", *words).splitlines()
        count = len(CARD_PATHS) + len(paths) + len(made)
        self._answers = dict(line.split(": ") for line in said[:count])
        self.env: dict[str, str] = dict(line.partition("=")[::2] for line in said[count:])

    def uuids(self) -> str:
        """Return which cards its environment names."""
        return self.env["NVIDIA_VISIBLE_DEVICES"]

    def minors(self) -> list[int]:
        """Return the minors of the cards that it may open."""
        return openable(self.opened(*CARD_PATHS))

    def opened(self, *paths: str) -> list[str]:
        """Return what came of opening each of these paths."""
        return [self._answers[path] for path in paths]

    def made(self, *minors: int) -> list[str]:
        """Return what came of making a device node of each of these cards by itself, and opening that."""
        return self.opened(*map(_made, minors))


def _made(minor: int) -> str:
    return f"/made-{minor}"


def openable(answers: list[str]) -> list[int]:
    """Return the minors of the cards that could be opened, by the answers for each of them."""
    assert set(answers) <= {ALLOWED, ABSENT}, answers
    return [minor for minor, answer in enumerate(answers) if answer == ALLOWED]


# ---------------------------------------------------------------- a scene that every way of delivery plays


HALF: Final = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}


def scene(half: Mapping[str, str] = HALF, **spec: Any) -> tuple[Thing, ...]:
    """Return a pod of two containers, a sidecar and an init container, two halves, and one without a card."""
    once = whole("once") | {"command": ["/pause", "open", *CARD_PATHS]}
    side = whole("side") | {"restartPolicy": "Always"}
    return (
        pod("several", whole("left"), whole("right"), initContainers=[once, side], **spec),
        pod("first", container("main", **half), **spec),
        pod("second", container("main", **half), **spec),
        pod("none", container("main"), **spec),
    )


RUNNING: Final = (("several", "left"), ("several", "right"), ("several", "side"), ("first", "main"))
PAIR: Final = (("first", "main"), ("second", "main"))


async def assert_as_decided(
    stage: Stage, worker: workers.Worker, minor_of: Mapping[str, int], *, files: bool = True
) -> None:
    """Assert that each container of the scene sees the cards of its annotation and no others.

    With `files` it sees those of the driver, too.
    """
    now = await stage.pods()

    def given(name: str, container: str) -> str:
        text: str = now[name]["metadata"]["annotations"][names.container_key(container, "uuids")]
        return text

    held = {place: [minor_of[uuid] for uuid in given(*place).split(",")] for place in (*RUNNING, *PAIR)}
    of_driver = [f"/dev/{name}" for name in OF_DRIVER]
    for place, minors in held.items():
        tried = minors[0], next(minor for minor in range(MOST_CARDS) if minor not in minors)
        inside = Inside(stage, worker, place, *of_driver, LOADED, made=tried)
        assert (inside.uuids(), inside.minors()) == (given(*place), minors)
        assert inside.made(*tried) == [ALLOWED, DENIED]
        assert inside.opened(*of_driver) == [ALLOWED, ALLOWED]
        assert inside.opened(LOADED) == ["opened" if files else ABSENT]
    assert sorted(minor for place in RUNNING for minor in held[place]) == list(range(MOST_CARDS))
    assert held[PAIR[0]] == held[PAIR[1]]
    nothing = Inside(stage, worker, ("none", "main"), LOADED, made=(0,))
    assert (nothing.uuids(), nothing.minors(), nothing.made(0)) == ("void", [], [DENIED])
    assert nothing.opened(LOADED) == [ABSENT]
    said = stage.cluster.kubectl("logs", "several", "--container=once", "--namespace", stage.namespace)
    answers = [line.partition(": ")[2] for line in said.splitlines()]
    assert openable(answers) == [minor_of[given("several", "once")]]
