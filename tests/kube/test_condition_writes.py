"""Verdicts on their way to a server: in which order, how many, and what becomes of those that fail."""

import asyncio
import itertools
import json
import time

import pytest
from aiohttp import web

from berth_crds import wire
from berth_crds.client import api, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import pod_status
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from kube.telling import Notes, waits
from support import clock, stub, timeless
from testbed import waiting

# ---------------------------------------------------------------- what is written first


async def test_a_verdict_that_changes_back_while_it_is_written_is_written_back() -> None:
    """What was shown before the write under way is no reason to leave that one standing."""
    candidate = queued_pods.Candidate(uid="u-1", namespace="ml", name="p")
    path = resources.PODS.path("p", namespace="ml", sub="status")
    gate = asyncio.Event()
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", path, stub.thing({}), stub.later(gate, stub.thing({})), stub.thing({}))
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        status_writer.pod_waiting(raw.Pod(wire.Meta(uid="u-1", resource_version="5")))
        async with timeless.beside(status_writer.run()):
            for count, message in enumerate(("A", "B", "A"), 1):
                status_writer.unschedulable(candidate, message)
                if count == 3:
                    gate.set()
                await until_sent(server, count)

    assert [said(body) for body in server.bodies] == ["A", "B", "A"]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(stub.status(409, "it has moved on"), id="409"),
        pytest.param(stub.status(503, "going down"), id="503"),
        pytest.param(stub.reset(), id="reset"),
    ],
)
async def test_what_is_said_again_while_its_write_fails_is_written(
    trouble: stub.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict that is on its way is not shown yet: it stays due until the server has taken it."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.02)
    candidate = queued_pods.Candidate(uid="u-1", namespace="ml", name="p")
    path = resources.PODS.path("p", namespace="ml", sub="status")
    gate = asyncio.Event()
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", path, stub.later(gate, trouble), stub.thing({}))
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        status_writer.pod_waiting(raw.Pod(wire.Meta(uid="u-1", resource_version="5")))
        async with timeless.beside(status_writer.run()):
            status_writer.unschedulable(candidate, "A")
            await until_sent(server, 1)
            status_writer.unschedulable(candidate, "A")
            gate.set()
            await until_sent(server, 2)

    assert [said(body) for body in server.bodies] == ["A", "A"]


async def test_a_verdict_that_makes_a_pod_too_large_is_not_written_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Etcd will not take it the next time either; what is said of others is written."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.01)
    large, small = (queued_pods.Candidate(uid=f"u-{name}", namespace="ml", name=name) for name in ("l", "s"))
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for one, answer in (
            (large, stub.status(500, "etcdserver: request is too large")),
            (small, stub.status(503, "later")),
        ):
            path = resources.PODS.path(one.name, namespace="ml", sub="status")
            server.on("PATCH", path, answer)
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        async with timeless.beside(status_writer.run()):
            for one in (large, small):
                status_writer.pod_waiting(raw.Pod(wire.Meta(uid=one.uid, resource_version="5")))
                status_writer.unschedulable(one, "A")
            await until_sent(server, 5)

    assert [one.path.split("/")[-2] for one in server.requests].count("l") == 1


async def test_who_shows_nothing_yet_comes_first() -> None:
    """A crowd whose sentence changes keeps nobody from the first one, and the server gets them at a pace."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", resources.PODS.path("new", namespace="ml", sub="status"), stub.thing({}))
        slow = rate_limiter.RateLimiter(time.monotonic, rate_limiter.constant(500.0))
        status_writer = pod_status.PodStatusWriter(session, Notes(session), slow, wall=clock.Clock().wall)
        crowd = [queued_pods.Candidate(uid=f"u-{at}", namespace="ml", name=f"p{at}") for at in range(200)]
        for one in crowd:
            path = resources.PODS.path(one.name, namespace="ml", sub="status")
            server.on("PATCH", path, stub.thing({}))
            condition = raw.PodCondition(
                type="PodScheduled", status="False", reason="Unschedulable", message="A"
            )
            status = raw.PodStatus(conditions=(condition,))
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=one.uid, resource_version="5"), status=status))
            status_writer.unschedulable(one, "B")
        newcomer = queued_pods.Candidate(uid="u-new", namespace="ml", name="new")
        async with timeless.beside(status_writer.run()):
            began = time.monotonic()
            await until_sent(server, 1)
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid="u-new", resource_version="7")))
            status_writer.unschedulable(newcomer, "C")
            await until_sent(server, 201)
            took = time.monotonic() - began

    assert [said(body) for body in server.bodies].index("C") <= pod_status.BATCH + pod_status.AT_ONCE
    assert took >= 0.35


async def test_a_stream_of_new_pods_keeps_no_other_from_its_new_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever makes pods faster than verdicts are written does not freeze what all others show."""
    monkeypatch.setattr(pod_status, "BATCH", 4)
    monkeypatch.setattr(pod_status, "RESERVED_FOR_REWRITES", 1)
    old = queued_pods.Candidate(uid="u-old", namespace="ml", name="old")
    stream = (queued_pods.Candidate(uid=f"u-{at}", namespace="x", name=f"p{at}") for at in itertools.count())

    def come(count: int) -> None:
        for one in itertools.islice(stream, count):
            server.on("PATCH", resources.PODS.path(one.name, namespace="x", sub="status"), then_more)
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=one.uid, resource_version="5")))
            status_writer.unschedulable(one, "A")

    async def then_more(request: web.Request) -> web.StreamResponse:
        come(1)
        return await stub.thing({})(request)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", resources.PODS.path("old", namespace="ml", sub="status"), stub.thing({}))
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        condition = raw.PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="A")
        status = raw.PodStatus(conditions=(condition,))
        status_writer.pod_waiting(raw.Pod(wire.Meta(uid="u-old", resource_version="5"), status=status))
        status_writer.unschedulable(old, "B")
        come(8)
        async with timeless.beside(status_writer.run()):
            await until_sent(server, 40)

    assert "B" in [said(body) for body in server.bodies]


@pytest.mark.parametrize("shows", [False, True], ids=["first ones", "new ones"])
async def test_namespaces_take_turns(monkeypatch: pytest.MonkeyPatch, shows: bool) -> None:  # noqa: FBT001  a column of the table
    """A crowd of one delays no sentence of another, even where a batch has not one for each namespace."""
    monkeypatch.setattr(pod_status, "BATCH", 2)
    monkeypatch.setattr(pod_status, "RESERVED_FOR_REWRITES", 1)
    condition = raw.PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="A")
    status = raw.PodStatus(conditions=(condition,) if shows else ())
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        for namespace, count in {"a": 6, "b": 6, "c": 6, "ml": 1}.items():
            for at in range(count):
                one = queued_pods.Candidate(uid=f"{namespace}-{at}", namespace=namespace, name=f"p{at}")
                path = resources.PODS.path(one.name, namespace=namespace, sub="status")
                server.on("PATCH", path, stub.thing({}))
                status_writer.pod_waiting(
                    raw.Pod(wire.Meta(uid=one.uid, resource_version="5"), status=status)
                )
                status_writer.unschedulable(one, namespace)
        async with timeless.beside(status_writer.run()):
            await until_sent(server, 19)

    assert "".join(said(body) for body in server.bodies) == "abcml" + "abc" * 5
    assert not list(status_writer._first_due._items) + list(status_writer._rewrites_due._items)


async def test_who_is_gone_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd that goes while its first verdict is written is not remembered until others wait."""
    monkeypatch.setattr(pod_status, "BATCH", 1)
    crowd = [queued_pods.Candidate(uid=f"u-{at}", namespace=f"n{at}", name="p") for at in range(3)]

    async def all_go(request: web.Request) -> web.StreamResponse:
        for one in crowd:
            status_writer.pod_left(one.uid)
        return await stub.thing({})(request)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        for one in crowd:
            server.on("PATCH", resources.PODS.path("p", namespace=one.namespace, sub="status"), all_go)
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=one.uid, resource_version="5")))
            status_writer.unschedulable(one, "A")
        async with timeless.beside(status_writer.run()):
            await until_sent(server, 1)

            async def forgotten() -> bool:
                return not status_writer._first_due

            await waiting.eventually(forgotten, what="nobody to be remembered", seconds=5)

    assert len(server.bodies) == 1


def said(body: bytes) -> str:
    """Read the sentence of a status patch."""
    return str(json.loads(body)["status"]["conditions"][0]["message"])


async def until_sent(server: stub.Stub, count: int) -> None:
    """Wait until the server has so many patches."""

    async def there() -> bool:
        return len(server.bodies) >= count

    await waiting.eventually(there, what=f"{count} patches", seconds=5)


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    ("trouble", "tries"),
    [
        pytest.param(stub.status(503, "no"), 3, id="503: again"),
        pytest.param(stub.status(429, "no"), 3, id="429: again"),
        pytest.param(stub.reset(), 3, id="reset: again"),
        pytest.param(stub.status(409, "no"), 3, id="409: again"),
        pytest.param(stub.status(401, "no"), 3, id="401: again"),
        pytest.param(stub.status(404, "no", reason="NotFound"), 1, id="404: never"),
        pytest.param(stub.raw(b"no backend", code=404), 3, id="a proxy's 404: again"),
        pytest.param(stub.status(403, "no"), 1, id="403: never"),
        pytest.param(stub.status(422, "no"), 1, id="422: never"),
    ],
)
async def test_a_write_that_failed(trouble: stub.Answer, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may pass is tried again; what will not is dropped, and nothing else waits behind it."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.02)
    candidate = queued_pods.Candidate(uid="u-1", namespace="ml", name="p")
    path = resources.PODS.path("p", namespace="ml", sub="status")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", path, trouble, trouble, stub.thing({}))
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        status_writer.pod_waiting(raw.Pod(wire.Meta(uid="u-1", resource_version="5")))
        async with timeless.beside(status_writer.run()):
            status_writer.unschedulable(candidate, waits(Reason.FULL))

            async def settled() -> bool:
                return not status_writer._due

            await waiting.eventually(settled, what="the verdict to be settled", seconds=5)

    assert len(server.requests) == tries


async def test_everybodys_trouble_is_tried_with_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away not every waiting pod is tried, and its own wish for patience is kept."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.01)
    busy = stub.status(429, "slow down", headers={"Retry-After": "0.3"})
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )
        for at in range(20):
            name = f"p{at}"
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, *([busy] if at == 0 else []), stub.thing({}))
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            candidate = queued_pods.Candidate(uid=name, namespace="ml", name=name)
            status_writer.unschedulable(candidate, waits(Reason.FULL))
        async with timeless.beside(status_writer.run()):
            await asyncio.sleep(0.1)
            early = len(server.requests)

            async def settled() -> bool:
                return not status_writer._due

            await waiting.eventually(settled, what="all verdicts to be written", seconds=5)

    assert early == 1
    assert len(server.requests) == 21


async def test_what_comes_in_meanwhile_is_written_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is for what could not be written; whoever is judged while others are told is told next."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 60.0)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )

        def judge(name: str) -> None:
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, stub.thing({}))
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            status_writer.unschedulable(
                queued_pods.Candidate(uid=name, namespace="ml", name=name), waits(Reason.FULL)
            )

        judge("early")
        async with timeless.beside(status_writer.run()):
            await asyncio.sleep(0)  # Its write is under way.
            judge("late")

            async def settled() -> bool:
                return not status_writer._due

            await waiting.eventually(settled, what="both verdicts to be written", seconds=5)

    assert len(server.requests) == 2


async def test_who_is_stuck_delays_nobody_and_goes_on_with_its_next_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A verdict on a revision that has passed waits for the next one; others are told meanwhile."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 60.0)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        status_writer = pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )

        def judge(name: str, *answers: stub.Answer) -> None:
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, *answers)
            status_writer.pod_waiting(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            status_writer.unschedulable(
                queued_pods.Candidate(uid=name, namespace="ml", name=name), waits(Reason.FULL)
            )

        async def told(*names: str) -> None:
            async def settled() -> bool:
                return not set(names) & status_writer._due.keys()

            await waiting.eventually(settled, what=f"{names} to be told", seconds=5)

        judge("moving", stub.status(409, "it has moved on"), stub.thing({}))
        async with timeless.beside(status_writer.run()):
            await waiting.eventually(lambda: asyncio.sleep(0, len(server.requests)), what="the first try")
            judge("newcomer", stub.thing({}))
            await told("newcomer")
            assert "moving" in status_writer._due

            status_writer.pod_waiting(raw.Pod(wire.Meta(uid="moving", resource_version="6")))
            await told("moving")

    assert len(server.requests) == 3
