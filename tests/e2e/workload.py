"""Pods that come and go: whole cards, shares, none; some finish, some are deleted.

Without it a crash is a crash of an operator that has nothing to do. In the long run the
workload asks for more than there is, so that what finished or was deleted must become free
for the others; at any moment it asks for less, so that whoever waits is waiting for an
operator and not for cards. Only its one misfit asks for what can never be given.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from berth_crds import aliases, names
from berth_crds.client import errors
from e2e import claimed_pods, plans
from e2e.stage import Pod, Stage
from support import kubelet, manifests

PAUSE_SECONDS: Final = 0.25
MOST_WAITING: Final = 12  # Nobody leads for a while after a crash; what comes meanwhile fits at once.
MOST_LASTING: Final = 6
MISFIT: Final = "misfit"
FINISHED: Final = {"Succeeded", "Failed"}
SHORTEST, LONGEST = 0.3, 2.0  # Seconds that a pod runs.

SHAPES: Final[tuple[dict[str, str], ...]] = (
    {names.NVIDIA_GPU: "1"},
    {names.NVIDIA_GPU: "1"},
    {names.NVIDIA_GPU: "2"},
    {names.GPU: "30"},
    {names.GPU: "50"},
    {names.GPU_CORE: "25", names.GPU_MEMORY: "4Gi"},
    {names.GPU_CORE: "70", names.GPU_MEMORY_RATIO: "60"},
    {},
)


class Workload:
    """The pods of one round."""

    def __init__(self, stage: Stage, chance: random.Random, waiting: Callable[[], list[str]]) -> None:
        self._stage = stage
        self._chance = chance
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None
        self._resting = asyncio.Event()
        self._lasting: list[str] = []
        self._misfits = self._count = 0
        self.claimed = claimed_pods.ClaimedPods(stage, chance)
        self.made: set[str] = set()
        self.last = 0.0  # When the last pod was made.

    @contextlib.asynccontextmanager
    async def arriving(self) -> AsyncIterator[None]:
        """Let pods come for as long as the block lasts."""
        self._resting.clear()
        self._task = asyncio.create_task(self._arrive())
        try:
            yield
        finally:
            await self.rest()

    async def rest(self) -> None:
        """Let no more come. A request that is under way is awaited: cut short, it may still make its pod."""
        task, self._task = self._task, None
        if task is not None:
            self._resting.set()
            await task

    async def _arrive(self) -> None:
        while not await self._rests(self._chance.uniform(0, 2 * PAUSE_SECONDS)):
            if len(self._waiting()) < MOST_WAITING:
                await self.burst(1)

    async def _rests(self, seconds: float) -> bool:
        """Whether no more are to come, now or within some time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._resting.wait(), seconds)
        return self._resting.is_set()

    async def burst(self, count: int) -> list[str]:
        """Make some pods at once, most of which will finish; give their names."""
        made = [self._any(f"c{self._count + at}") for at in range(count)]
        self._count += count
        await self._make(*made)
        return [one["metadata"]["name"] for one in made]

    def _any(self, name: str) -> Pod:
        shape = self._chance.choice(SHAPES)
        if len(self._lasting) < MOST_LASTING and self._chance.random() < 0.2:
            self._lasting.append(name)
            return manifests.pod(name, shape)
        seconds = f"{self._chance.uniform(SHORTEST, LONGEST):.2f}"
        return manifests.pod(name, shape, annotations={kubelet.RUN_SECONDS: seconds})

    async def _make(self, *pods: Pod) -> None:
        await asyncio.gather(*map(self._make_one, pods))
        self.last = time.monotonic()
        if len(self._lasting) == MOST_LASTING:
            with contextlib.suppress(errors.NotFound):
                await self._stage.delete(self._lasting.pop(0))

    async def _make_one(self, one: Pod) -> None:
        await self._stage.create(one)
        self.made.add(one["metadata"]["name"])

    async def misfit(self) -> None:
        """Make a pod that can never fit, in place of the one before."""
        with contextlib.suppress(errors.NotFound):
            await self._stage.delete(f"{MISFIT}-{self._misfits}")
        self._misfits += 1
        await self._stage.create(manifests.pod(f"{MISFIT}-{self._misfits}", 64))

    async def claims(self, *locals_: bool) -> None:
        """Make pods with a claim each, whose volumes exist or are to be made."""
        await self._make(*[await self.claimed.pod(local=local) for local in locals_])

    async def provoke(self, wanted: AbstractSet[str]) -> None:
        """Bring about calls that only certain pods cause: one that does not fit, and those with claims."""
        if "patch pods/status" in wanted:
            await self.misfit()
        if wanted & plans.OF_CLAIMS:
            waiting = set(self._waiting())
            if waiting.isdisjoint(self.claimed.names):
                await self.claims("patch persistentvolumes" in wanted)

    async def fill(self, cards: int) -> None:
        """Ask for so many whole cards, one for each pod."""
        await self._make(*(manifests.pod(f"fill-{at}") for at in range(cards)))

    async def singles(self, count: int) -> list[str]:
        """Ask for so many whole cards, one for each pod, to keep them."""
        return await self._named("single", count, {})

    async def rivals(self, count: int, *, seconds: float) -> list[str]:
        """Ask for so many whole cards, one for each pod, before everybody else and for a time."""
        return await self._named("rival", count, {kubelet.RUN_SECONDS: f"{seconds:.1f}"}, priority="1000")

    async def _named(
        self, what: str, count: int, annotations: dict[str, str], *, priority: str = "0"
    ) -> list[str]:
        made = [manifests.pod(f"{what}-{at}", annotations=annotations) for at in range(count)]
        for one in made:
            one["metadata"]["labels"] = {aliases.GENIUS_PRIORITY: priority}
        await self._make(*made)
        return [one["metadata"]["name"] for one in made]

    async def clear(self) -> None:
        """Delete all pods, and wait until they are gone."""
        await self.rest()
        await self._stage.clear_pods()
        await self.claimed.close()

    @staticmethod
    def fits(name: str) -> bool:
        """Whether a pod is one that fits, by its name."""
        return not name.startswith(MISFIT)

    @staticmethod
    def finite(one: dict[str, Any]) -> bool:
        """Whether a pod finishes by itself."""
        return kubelet.RUN_SECONDS in one["metadata"].get("annotations", {})

    @classmethod
    def passing(cls, one: dict[str, Any]) -> bool:
        """Whether a bound pod is still to finish, or a deleted one to go."""
        finite = cls.finite(one) and one["status"].get("phase") not in FINISHED
        return bool(one["spec"].get("nodeName")) and (finite or "deletionTimestamp" in one["metadata"])
