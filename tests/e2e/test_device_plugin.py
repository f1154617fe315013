"""The agent as the kubelet's device plugin on a real node: who gets which cards, looked at from inside."""

import contextlib
from pathlib import Path
from typing import Final

import pytest

from berth_agent import simulated
from berth_crds import names
from berth_crds.client import errors, resources
from e2e.inside import (
    MOST_CARDS,
    Inside,
    assert_as_decided,
    container,
    give_cards,
    pod,
    scene,
    until_allocatable,
    until_running,
    whole,
)
from e2e.plugged import SHAPE, flags, minors, started, stock, until_verified
from e2e.stage import Stage, Thing, cards_of
from support import thorough
from testbed import workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]


async def test_each_container_gets_the_cards_of_its_annotation(stage: Stage, worker: workers.Worker) -> None:
    """Of the pods of one moment, too, where the kubelet's own choice would be another; all are verified."""
    await started(stage, worker)

    once = whole("once") | {"command": ["/pause", "env"]}
    pods = [
        pod("a", whole("left"), whole("right"), initContainers=[once]),
        pod("b", whole("main")),
        pod("c", whole("main")),
    ]
    await stage.create(*pods)
    await until_running(stage, "a", "b", "c")

    now = await stage.pods()
    seen = {
        (name, one): Inside(stage, worker, (name, one)).uuids()
        for name, one in (("a", "left"), ("a", "right"), ("b", "main"), ("c", "main"))
    }
    assert seen == {
        (name, one): now[name]["metadata"]["annotations"][names.container_key(one, "uuids")]
        for name, one in seen
    }
    assert sorted(seen.values()) == sorted(minors(worker))
    for name in ("a", "b", "c"):
        await until_verified(stage, name)


BY_RUNTIME: Final = [
    ("envvar",),
    *map(thorough.case, (("envvar", "--device-id-strategy", "index"), ("volume-mounts",))),
]
BY_KUBELET: Final = [
    ("cdi-cri",),
    *map(thorough.case, (("cdi-annotations",), ("envvar", "--pass-device-specs"))),
]
HALF: Final = {names.GPU: "50"}


@pytest.mark.parametrize("strategy", BY_RUNTIME, ids=" ".join)
async def test_nvidias_runtime_opens_what_the_plugin_names(
    stage: Stage, nvidia_worker: workers.Worker, strategy: tuple[str, ...]
) -> None:
    """Containers of one pod, halves of one card, and none for a pod without a card."""
    worker = nvidia_worker
    give_cards(worker, minors(worker))
    await started(stage, worker, "--device-list-strategy", *strategy)

    await play(stage, *scene(HALF))

    await assert_as_decided(stage, worker, minors(worker))
    if strategy == ("volume-mounts",):
        (uuid,) = cards_of((await stage.pods())["first"])
        named = f"/var/run/nvidia-container-devices/{uuid}"
        assert Inside(stage, worker, ("first", "main"), named).opened(named) == ["opened"]


@pytest.mark.parametrize("strategy", BY_KUBELET, ids=" ".join)
async def test_the_kubelet_opens_what_the_plugin_names(
    stage: Stage, worker: workers.Worker, driver: Path, strategy: tuple[str, ...]
) -> None:
    """The same without any runtime of NVIDIA's; device nodes alone bring none of the driver's files."""
    roots = ("--nvidia-driver-root", str(driver), "--cdi", str(worker.cdi))
    await started(stage, worker, *roots, "--device-list-strategy", *strategy)

    await play(stage, *scene(HALF))

    await assert_as_decided(stage, worker, minors(worker), files=strategy[0] != "envvar")


async def test_of_several_models_the_one_that_was_asked_for_is_given(
    stage: Stage, worker: workers.Worker, driver: Path
) -> None:
    """The kubelet knows of no models, and counts all cards alike (C2)."""
    shape = f"{MOST_CARDS - 1}xT4+1xL4"
    roots = ("--nvidia-driver-root", str(driver), "--cdi", str(worker.cdi))
    await stage.agent(*flags(worker, *roots, "--device-list-strategy=cdi-cri"), **{worker.name: shape})
    await stage.until_ready(worker.name)
    await until_allocatable(stage, worker.name, MOST_CARDS)
    asking = pod("p", whole("main"))
    asking["metadata"]["annotations"] = {names.MODEL: "L4"}

    await play(stage, asking)

    cards = simulated.machine(worker.name, shape).answering_cards()
    (wanted,) = (card.minor for card in cards if "L4" in card.model)
    assert Inside(stage, worker, ("p", "main")).minors() == [wanted]


async def play(stage: Stage, *pods: Thing) -> None:
    """Create pods, and wait until all run and are verified."""
    await stage.create(*pods)
    titles = [each["metadata"]["name"] for each in pods]
    await until_running(stage, *titles)
    for title in titles:
        if cards_of((await stage.pods())[title]):
            await until_verified(stage, title)


async def test_parts_of_cards_may_be_anybodys(stage: Stage, worker: workers.Worker) -> None:
    """A pod of another scheduler is given a part by the kubelet, and Berth gives nobody the same."""
    await started(stage, worker)
    await until_allocatable(stage, worker.name, 100 * MOST_CARDS, names.GPU)
    unasked = {names.GPU_CORE: "30", names.GPU_MEMORY_RATIO: "30"}
    await stage.create(pod("ours", container("main", **unasked)))
    await until_running(stage, "ours")
    await until_allocatable(stage, worker.name, 100 * MOST_CARDS - 30, names.GPU)

    await stage.create(stock("theirs", worker, container("main", **{names.GPU: "70"})))
    await until_running(stage, "theirs")
    await until_published(stage, "theirs", core=70)
    await play(stage, pod("last", container("main", **{names.GPU: "300"})))

    (card,) = cards_of((await stage.pods())["ours"])
    assert Inside(stage, worker, ("theirs", "main")).uuids() == card
    last = Inside(stage, worker, ("last", "main")).uuids().split(",")
    assert {card, *last} == set(minors(worker))
    await stage.waiting_pod(pod("late", container("main", **{names.GPU: "1"})), "0/1 nodes are available")


async def test_what_an_init_container_had_stays_its_pods(stage: Stage, worker: workers.Worker) -> None:
    """The kubelet gives it to nobody else while the pod is there; an agent started since then knows that."""
    agent = await started(stage, worker)
    once = whole("once") | {"command": ["/pause", "env"]}
    stuck = whole("once") | {"image": "berth.invalid/absent:1"}
    held = set[str]()
    for name, init in (("ended", once), ("stuck", stuck)):
        theirs = stock(name, worker, container("main"))
        theirs["spec"]["initContainers"] = [init]
        await stage.create(theirs)
        await until_published(stage, name, core=100)
        held |= (await held_by(stage, name)).keys()
    await until_running(stage, "ended")
    agent.kill()
    agent = await stage.agent(*flags(worker), **{worker.name: SHAPE})
    # The kubelet's last count of the cards is still there, from the agent before.
    await stage.says(agent, "registered nvidia.com/gpu with the kubelet")
    await until_allocatable(stage, worker.name, MOST_CARDS)

    await play(stage, pod("ours", whole("left"), whole("right")))

    mine = set(cards_of((await stage.pods())["ours"]))
    assert mine == set(minors(worker)) - held
    await stage.waiting_pod(pod("late", whole("main")), "0/1 nodes are available")
    assert "could not be found" not in agent.log.read_text()


async def held_by(stage: Stage, name: str) -> dict[str, int]:
    """Return which cards the record of a pod says that it holds, and how much of each."""
    found = await stage.admin.get(resources.GPU_PODS, name, into=dict, namespace=stage.namespace)
    held = (card for each in found["spec"].get("containers", ()) for card in each["devices"])
    return {card["uuid"]: card["core"] for card in held}


async def until_published(stage: Stage, name: str, core: int) -> None:
    """Wait until the record of a pod says how much it has of its card."""

    async def published() -> bool:
        with contextlib.suppress(errors.NotFound):
            return list((await held_by(stage, name)).values()) == [core]
        return False

    await stage.until(f"the record of {name}", published, seconds=40)


async def test_stock_pods_and_shares_never_meet_on_a_card(stage: Stage, worker: workers.Worker) -> None:
    """A card of which Berth gave a part is no device any more, and the others are given as usual."""
    await started(stage, worker)
    half = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}

    await stage.create(pod("share", container("main", **half)))
    await until_running(stage, "share")
    await until_allocatable(stage, worker.name, MOST_CARDS - 1)
    await stage.create(stock("stock", worker, container("main", **{names.NVIDIA_GPU: f"{MOST_CARDS - 1}"})))
    await until_running(stage, "stock")

    (shared,) = cards_of((await stage.pods())["share"])
    given = set(Inside(stage, worker, ("stock", "main")).uuids().split(","))
    assert given == set(minors(worker)) - {shared}
    await stage.delete("share")
    await stage.until_gone("share")
    await until_allocatable(stage, worker.name, MOST_CARDS)


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("cdi-cri", ()),
        thorough.case("envvar", ()),
        thorough.case("envvar", ("--device-id-strategy", "index")),
        thorough.case("volume-mounts", ()),
        thorough.case("cdi-annotations", ()),
        thorough.case("envvar", ("--pass-device-specs",)),
    ],
)
async def test_a_stock_pod_learns_of_its_cards(
    stage: Stage, worker: workers.Worker, driver: Path, strategy: str, more: tuple[str, ...]
) -> None:
    """By each of the strategies of NVIDIA's plugin, which the values of its users name."""
    roots = ("--nvidia-driver-root", str(driver), "--cdi", str(worker.cdi))
    words = flags(worker, *roots, "--device-list-strategy", strategy, *more)
    await stage.agent(*words, **{worker.name: SHAPE})
    await until_allocatable(stage, worker.name, MOST_CARDS)

    await stage.create(stock("p", worker, container("main", **{names.NVIDIA_GPU: "2"})))
    await until_running(stage, "p")

    uuids = [uuid for uuid, minor in minors(worker).items() if minor in {0, 1}]
    folder = "/var/run/nvidia-container-devices"
    mounted = [f"{folder}/{uuid}" for uuid in uuids]
    inside = Inside(stage, worker, ("p", "main"), *mounted)
    opens = strategy.startswith("cdi") or "--pass-device-specs" in more
    assert inside.minors() == ([0, 1] if opens else [])
    if strategy == "envvar":
        assert inside.uuids() == ("0,1" if "index" in more else ",".join(uuids))
    elif strategy == "volume-mounts":
        assert inside.uuids() == folder
        assert inside.opened(*mounted) == ["opened", "opened"]
    else:
        assert inside.uuids() == "all"  # As its image says: no runtime of NVIDIA's is here to obey it.


NVIDIAS_CONFIG: Final = """
version: v1
flags: {plugin: {deviceListStrategy: envvar}}
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
"""


async def test_cards_may_be_shared_under_their_usual_name(
    stage: Stage, worker: workers.Worker, tmp_path: Path
) -> None:
    """By the file of NVIDIA's plugin as it is; pods that ask for nvidia.com/gpu, and no more, share them."""
    path = tmp_path / "config.yaml"
    path.write_text(NVIDIAS_CONFIG)
    await stage.agent(*flags(worker, "--config-file", str(path)), **{worker.name: SHAPE})
    await stage.until_ready(worker.name)
    await until_allocatable(stage, worker.name, 2 * MOST_CARDS)

    titles = [f"p{number}" for number in range(MOST_CARDS + 1)]
    await stage.create(*(pod(title, whole("main")) for title in titles))
    await until_running(stage, *titles)
    await stage.create(stock("stock", worker, container("main", **{names.NVIDIA_GPU: "3"})))
    await until_running(stage, "stock")

    now = await stage.pods()
    seen = {title: Inside(stage, worker, (title, "main")).uuids() for title in titles}
    assert seen == {title: cards_of(now[title])[0] for title in titles}
    assert set(seen.values()) == set(minors(worker))
    given = Inside(stage, worker, ("stock", "main")).uuids().split(",")
    assert sorted([*seen.values(), *given]) == sorted([*minors(worker)] * 2)
    for title in titles:
        await until_verified(stage, title)
