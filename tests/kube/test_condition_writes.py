"""Conditions on their way to a server: in which order, how many, and what becomes of those that fail."""

import asyncio

import pytest

from berth_crds import wire
from berth_crds.client import errors
from berth_operator.engine import rate_limiter
from berth_operator.kube import pod_status
from berth_operator.translate import raw
from kube import servers
from support import timeless

# ---------------------------------------------------------------- what is written first


@timeless.scenario
async def test_a_condition_that_changes_back_while_it_is_written_is_written_back() -> None:
    """What was shown before the write under way is no reason to leave that one standing."""
    scene, gate = servers.StatusWriting(), asyncio.Event()
    scene.on("p", None, gate.wait)
    scene.waits("p")
    async with timeless.beside(scene.writer.run()):
        for count, message in enumerate("ABA", 1):
            scene.refuse("p", message)
            if count == 3:
                gate.set()
            await scene.server.until(count)

    assert scene.server.messages == ["A", "B", "A"]


@pytest.mark.parametrize(
    "trouble", [servers.error(409), servers.error(503), servers.reset()], ids=["409", "503", "reset"]
)
@timeless.scenario
async def test_what_is_said_again_while_its_write_fails_is_written(trouble: errors.ClientError) -> None:
    """A condition that is on its way is not shown yet: it stays due until the server has taken it."""
    scene, gate = servers.StatusWriting(), asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise trouble

    scene.on("p", fail)
    scene.waits("p")
    async with timeless.beside(scene.writer.run()):
        await scene.server.until(1)
        scene.refuse("p", "A")
        gate.set()
        await scene.server.until(2)

    assert scene.server.messages == ["A", "A"]


@timeless.scenario
async def test_a_condition_that_makes_a_pod_too_large_is_not_written_for_ever() -> None:
    """Etcd will not take it the next time either; what is said of others is written."""
    scene = servers.StatusWriting()
    scene.on("large", *[errors.Oversized(500, "etcdserver: request is too large")] * 5)
    scene.on("small", *[servers.error(503)] * 5)
    async with timeless.beside(scene.writer.run()):
        for name in ("large", "small"):
            scene.waits(name, name)
        await scene.server.until(5)

    assert scene.server.messages.count("large") == 1


@timeless.scenario
async def test_who_shows_nothing_yet_comes_first() -> None:
    """A crowd whose message changes keeps nobody from the first one, and the server gets them at a pace."""
    limiter = rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(500.0))
    scene = servers.StatusWriting(limiter)
    for at in range(200):
        scene.waits(f"p{at}", "B", shows="A")
    async with timeless.beside(scene.writer.run()):
        await scene.server.until(1)
        scene.waits("new", "C")
        await scene.server.until(201)

    assert scene.server.messages.index("C") <= pod_status.BATCH + pod_status.AT_ONCE
    assert scene.server.writes[-1].moment == pytest.approx(200 / 500.0)


@timeless.scenario
async def test_a_stream_of_new_pods_keeps_no_other_from_its_new_message() -> None:
    """Whoever makes pods faster than conditions are written does not freeze what all others show."""
    scene = servers.StatusWriting()
    scene.waits("old", "B", shows="A")

    async def come() -> None:
        await asyncio.sleep(0.001)
        name = f"p{len(scene.writer._shown)}"
        scene.on(name, come, namespace="x")
        scene.waits(name, namespace="x")

    for _ in range(2 * pod_status.BATCH):
        await come()
    async with timeless.beside(scene.writer.run()):
        await scene.server.until(4 * pod_status.BATCH)

    assert "B" in scene.server.messages


@pytest.mark.parametrize("shows", ["", "A"], ids=["first ones", "new ones"])
def test_namespaces_take_turns(monkeypatch: pytest.MonkeyPatch, shows: str) -> None:
    """A crowd of one delays no message of another, even where a batch has not one for each namespace."""
    monkeypatch.setattr(pod_status, "BATCH", 2)
    monkeypatch.setattr(pod_status, "RESERVED_FOR_REWRITES", 1)

    @timeless.scenario
    async def run() -> None:
        scene = servers.StatusWriting()
        for namespace, count in {"a": 6, "b": 6, "c": 6, "ml": 1}.items():
            for at in range(count):
                scene.waits(f"p{at}", namespace, namespace=namespace, shows=shows)
        async with timeless.beside(scene.writer.run()):
            await scene.server.until(19)

        assert "".join(scene.server.messages) == "abcml" + "abc" * 5
        assert not list(scene.writer._first_due._items) + list(scene.writer._rewrites_due._items)

    run()


@timeless.scenario
async def test_who_is_gone_leaves_nothing_behind() -> None:
    """A crowd that goes while its first condition is written is not remembered until others wait."""
    scene = servers.StatusWriting()

    async def all_go() -> None:
        for namespace in range(200):
            scene.writer.pod_left(f"n{namespace}-p")

    for namespace in range(200):
        scene.on("p", all_go, namespace=f"n{namespace}")
        scene.waits("p", namespace=f"n{namespace}")
    async with timeless.beside(scene.writer.run()):
        await scene.server.until(1)
        await timeless.until(lambda: not scene.writer._first_due)

    assert len(scene.server.writes) == 1


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    ("trouble", "tries"),
    [
        pytest.param(servers.error(503), 3, id="503: again"),
        pytest.param(servers.error(429), 3, id="429: again"),
        pytest.param(servers.reset(), 3, id="reset: again"),
        pytest.param(servers.error(409), 3, id="409: again"),
        pytest.param(servers.error(401), 3, id="401: again"),
        pytest.param(servers.error(404), 1, id="404: never"),
        pytest.param(errors.AmbiguousNotFound(404, "no backend"), 3, id="a proxy's 404: again"),
        pytest.param(servers.error(403), 1, id="403: never"),
        pytest.param(servers.error(422), 1, id="422: never"),
    ],
)
@timeless.scenario
async def test_a_write_that_failed(trouble: errors.ClientError, tries: int) -> None:
    """What may pass is tried again; what will not is dropped, and nothing else waits behind it."""
    scene = servers.StatusWriting()
    scene.on("p", trouble, trouble)
    scene.waits("p")
    async with timeless.beside(scene.writer.run()):
        await scene.until_settled()

    assert len(scene.server.writes) == tries


@timeless.scenario
async def test_everybodys_trouble_is_tried_with_one_pod() -> None:
    """While the server is away not every waiting pod is tried, and its own wish for patience is kept."""
    scene = servers.StatusWriting()
    scene.on("p0", servers.error(429, retry_after=3.0))
    for at in range(20):
        scene.waits(f"p{at}")
    async with timeless.beside(scene.writer.run()):
        await scene.until_settled()

    moments = [one.moment for one in scene.server.writes]
    assert len(moments) == 21
    assert moments[0] == 0.0
    assert moments[1] == pytest.approx(3.0)


@timeless.scenario
async def test_what_comes_in_meanwhile_is_written_without_a_pause() -> None:
    """A pause is for what could not be written; whoever is judged while others are told is told next."""
    scene = servers.StatusWriting()
    scene.waits("early")
    async with timeless.beside(scene.writer.run()):
        await asyncio.sleep(0)  # Its write is under way.
        scene.waits("late")
        await scene.until_settled()

    assert len(scene.server.writes) == 2
    assert scene.server.writes[-1].moment < pod_status.RETRY_SECONDS


@timeless.scenario
async def test_who_is_stuck_delays_nobody_and_goes_on_with_its_next_revision() -> None:
    """A condition on a revision that has passed waits for the next one; others are told meanwhile."""
    scene = servers.StatusWriting()
    scene.on("moving", servers.error(409))
    scene.waits("moving", "first")
    async with timeless.beside(scene.writer.run()):
        await scene.server.until(1)
        scene.waits("newcomer", "second")
        await scene.server.until(2)
        assert "ml-moving" in scene.writer._due

        scene.writer.pod_waiting(raw.Pod(wire.Meta(uid="ml-moving", resource_version="6")))
        await scene.until_settled()

    assert scene.server.messages == ["first", "second", "first"]
    assert scene.server.writes[-1].moment < pod_status.RETRY_SECONDS
