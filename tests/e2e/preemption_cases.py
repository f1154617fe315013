"""What Kubernetes' tests of preemption ask: pods of higher priority get their place from those of lower."""

from typing import Final

from berth_crds.client import resources
from e2e.kubernetes_bed import SCARCE, Bed, Case, on_node, plain, spread
from e2e.provisioner import HOST
from e2e.stage import Pod
from e2e.storage_cases import alone, using

BUDGETS: Final = resources.Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CRITICAL: Final = "system-cluster-critical"
LOW, MEDIUM, HIGH = 1, 100, 1000


def scarce(name: str, amount: int, priority: str, node: str = "") -> Pod:
    """Return a pod that asks for so much of the scarce resource, perhaps on a certain node."""
    where = {"affinity": on_node(node)} if node else {}
    return plain(name, {SCARCE: amount}, {"app": "case"}, priorityClassName=priority, **where)


async def crowded(bed: Bed, low: str, medium: str) -> None:
    """Fill two nodes with pods of 2 of 5 each, of which one has the lowest priority."""
    first, second = await bed.nodes("a", "b", extended={SCARCE: 5})
    await bed.stage.placed(
        scarce("victim", 2, low, first),
        *(scarce(f"medium-{at}", 2, medium, node) for at, node in enumerate((first, second, second))),
    )


async def by_priority(bed: Bed, high: str = "") -> None:
    """The only pod of low priority makes room, and no other."""
    await crowded(bed, await bed.priority(LOW), await bed.priority(MEDIUM))

    await bed.placed(scarce("high", 2, high or await bed.priority(HIGH)))
    await bed.evicted("victim")
    assert sorted(await bed.left()) == ["high", "medium-0", "medium-1", "medium-2"]


async def by_critical_pod(bed: Bed) -> None:
    """A critical pod likewise."""
    await by_priority(bed, CRITICAL)


async def with_budget(bed: Bed) -> None:
    """A budget spares the pod of lowest priority while there is another."""
    [node] = await bed.nodes("a", extended={SCARCE: 4})
    low, medium, high = [await bed.priority(value) for value in (LOW, MEDIUM, HIGH)]
    meant = {"minAvailable": 1, "selector": {"matchLabels": {"app": "case"}}}
    await bed.own(BUDGETS, {"metadata": {"name": "b"}, "spec": meant})
    other = plain("other", {SCARCE: 2}, priorityClassName=medium)
    await bed.stage.placed(scarce("low", 2, low, node), other)

    await bed.placed(plain("high", {SCARCE: 2}, priorityClassName=high))
    await bed.evicted("other")
    assert "low" in await bed.left()


async def of_three_priorities(bed: Bed) -> None:
    """Where ten of low priority are, ten of medium and five of high priority come: the high ones go first."""
    [node] = await bed.nodes("a", extended={SCARCE: 10})
    low, medium, high = [await bed.priority(value) for value in (LOW, MEDIUM, HIGH)]
    await bed.stage.placed(*(scarce(f"low-{at}", 1, low, node) for at in range(10)))
    await bed.stage.create(*(scarce(f"medium-{at}", 1, medium) for at in range(10)))

    await bed.placed(*(scarce(f"high-{at}", 1, high) for at in range(5)))
    await bed.evicted(*(f"low-{at}" for at in range(10)))


async def with_condition(bed: Bed) -> None:
    """The pod that makes room says why it goes."""
    [node] = await bed.nodes("a", extended={SCARCE: 1})
    victim = scarce("victim", 1, await bed.priority(LOW), node)
    victim["metadata"]["finalizers"] = ["example.com/held"]
    await bed.stage.placed(victim)
    await bed.stage.create(scarce("high", 1, await bed.priority(HIGH), node))
    try:
        await bed.evicted("victim")
        conditions = (await bed.stage.pods())["victim"]["status"]["conditions"]
        assert "DisruptionTarget" in [one["type"] for one in conditions]
    finally:
        await bed.stage.patch(resources.PODS, "victim", {"metadata": {"finalizers": None}})


async def with_spread(bed: Bed) -> None:
    """One of three low pods would be room enough, but only without two of them the pods are spread."""
    first, second = await bed.nodes("a", "b", extended={SCARCE: 9})
    low, medium, high = [await bed.priority(value) for value in (LOW, MEDIUM, HIGH)]
    await bed.stage.placed(
        scarce("high", 9, high, first), *(scarce(f"low-{at}", 3, low, second) for at in range(3))
    )

    pod = scarce("medium", 3, medium)
    pod["spec"]["topologySpreadConstraints"] = spread("case", HOST)
    await bed.goes_to(pod, second)
    await bed.stage.until("two pods to make room", lambda: one_is_left(bed))


async def one_is_left(bed: Bed) -> bool:
    """Whether two of the three low pods made room."""
    return sum(name.startswith("low-") for name in await bed.left()) == 1


async def step_by_step(bed: Bed) -> None:
    """Each priority takes the place of the one below it."""
    await bed.nodes("a", extended={SCARCE: 1000})
    classes = [await bed.priority(value) for value in (LOW, MEDIUM, HIGH, HIGH + 1)]
    await bed.stage.placed(*(scarce(f"first-{at}", 200, classes[0]) for at in range(5)))

    await bed.placed(*(scarce(f"second-{at}", 300, classes[1]) for at in range(3)))
    await bed.placed(*(scarce(f"third-{at}", 450, classes[2]) for at in range(2)))
    await bed.placed(scarce("last", 500, classes[3]))
    await bed.evicted(*(f"first-{at}" for at in range(5)), *(f"second-{at}" for at in range(3)))


async def for_a_claim(bed: Bed) -> None:
    """A claim for one pod at a time goes from a pod of low priority to one of high priority."""
    await bed.nodes("a", "b")
    await alone(bed)
    await bed.stage.placed(using("low", priorityClassName=await bed.priority(LOW)))

    await bed.placed(using("high", priorityClassName=await bed.priority(HIGH)))
    await bed.evicted("low")


CASES: Final[dict[str, Case]] = {
    "preemption by a pod of higher priority": by_priority,
    "preemption by a critical pod": by_critical_pod,
    "preemption that heeds disruption budgets": with_budget,
    "preemption where three priorities compete": of_three_priorities,
    "the condition of a pod that makes room": with_condition,
    "preemption of as many as spread needs": with_spread,
    "preemption, one priority after the other": step_by_step,
    "preemption for a claim for one pod at a time": for_a_claim,
}
