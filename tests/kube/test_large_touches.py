"""A new leader changes large pods a few at a time: the server has its Lease to renew beside."""

import asyncio
import time
from typing import Any, cast

from berth_crds.client import api
from berth_operator.engine import bind_declaration
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import pod_touches
from berth_operator.scheduling import queued_pods
from support import clock, timeless

MIB = 1 << 20


class Server:
    """A session whose writes need a tenth of a second each; it notes how many bytes are under way at once."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.now: list[str] = []
        self.ended: list[str] = []
        self.most = self.most_pods = 0

    async def send(self, _method: str, path: str, **_: Any) -> bytes:
        """Write a pod."""
        name = path.split("/")[-2]
        self.now.append(name)
        self.most = max(self.most, sum(map(self.sizes.__getitem__, self.now)))
        self.most_pods = max(self.most_pods, len(self.now))
        await asyncio.sleep(0.1)
        self.now.remove(name)
        self.ended.append(name)
        return b'{"metadata":{"resourceVersion":"9"}}'


@timeless.scenario
async def test_large_pods_are_changed_a_few_at_a_time_and_small_ones_first() -> None:
    """However large the pods of a crowd are, little of them is under way at once, and others do not wait."""
    sizes = {f"large-{at}": MIB for at in range(40)} | {"huge": 8 * MIB} | {f"p-{at}": 0 for at in range(64)}
    server, ledger = Server(sizes), Ledger(time.monotonic)
    for name in sizes:
        ledger.pod_waiting(
            queued_pods.Candidate(uid=name, namespace="ml", name=name), gated=False, version="5"
        )
    touching = pod_touches.PodTouches(
        cast(api.Api, server),
        ledger,
        condition_of=lambda _: None,
        size=sizes.__getitem__,
        wall=clock.Clock().wall,
    )

    assert await touching.void(bind_declaration.BindDeclaration(0, frozenset(sizes))) == "9"

    assert sorted(server.ended) == sorted(sizes)
    assert server.most == 8 * MIB  # The one that is alone.
    assert server.most_pods == pod_touches.AT_ONCE
    assert {name.split("-")[0] for name in server.ended[:64]} == {"p"}
    assert server.ended[-1] == "huge"
