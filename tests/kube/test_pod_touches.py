"""After the touches of a new leader no bind of an earlier one can arrive, whatever came in between."""

import asyncio
import dataclasses
import datetime as dt
import json
import time
from typing import Any

import pytest
from aiohttp import web

from berth_crds.client import api, resources
from berth_operator.engine import bind_declaration, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import binding_writer, pod_status, pod_touches
from berth_operator.scheduling import queued_pods
from berth_operator.translate import pods as reading
from berth_operator.translate import refusals
from kube.conftest import RecordingApi
from support import builders, hands, manifests, pods, stub

EVERYTHING = bind_declaration.EVERYTHING
NODE = "touch-node"


class Lead(writers.Lead):
    """The lead of somebody who was deposed and does not know it."""

    def leads(self) -> bool:
        """Believe that it lasts."""
        return True

    def doubt(self) -> None:
        """Have none."""


def touching(
    session: api.Api, ledger: Ledger, shown: pod_status.PodCondition | None = None, *, at: int = 0
) -> pod_touches.PodTouches:
    """Make what changes the pods of a ledger, all of which show this, at a moment."""
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=at)
    return pod_touches.PodTouches(session, ledger, condition_of=lambda _: shown, wall=lambda: moment)


# ---------------------------------------------------------------- on a real server


async def test_a_bind_that_is_late_is_void(session: RecordingApi, admin: api.Api, namespace: str) -> None:
    """What an old leader decided on the pod as it was finds another revision."""
    yard = pods.PodClient(admin, namespace)
    await yard.create(manifests.pod("p"))
    pod = await yard.read("p")
    candidate, old, new = reading.candidate(pod), Ledger(time.monotonic), Ledger(time.monotonic)
    for ledger in (old, new):
        ledger.pod_waiting(candidate, gated=False, version=pod.metadata.resource_version)
    late = binding_writer.BindingWriter(session, old, Lead(), term="old_x/1", clock=time.monotonic)

    version = await touching(session, new).void(EVERYTHING)
    answer = await late.bind(candidate, pods.placement(NODE, pods.CARD))

    now = await yard.read("p")
    assert isinstance(answer, ports.Unknown)
    assert "Precondition failed" in answer.message
    assert not now.spec.node_name
    assert now.metadata.resource_version == version
    assert pod_status.observed_condition(now) == pod_status.PodCondition(
        pod_touches.REASON, pod_touches.MESSAGE
    )


class Toucher(Lead):
    """A lead that can change pods."""

    def __init__(self, by: pod_touches.PodTouches) -> None:
        self._by = by

    async def touch(self, candidate: queued_pods.Candidate, version: str) -> None:
        """Change a pod."""
        await self._by.touch(candidate, version)


@pytest.mark.parametrize("arrives", [False, True], ids=["not yet", "meanwhile"])
async def test_a_bind_that_is_given_up_is_void(
    session: RecordingApi, admin: api.Api, namespace: str, *, arrives: bool
) -> None:
    """If the pod is still unbound after the change, no bind that was sent before can be carried out."""
    yard = pods.PodClient(admin, namespace)
    await yard.create(manifests.pod("p"))
    pod, ledger = await yard.read("p"), Ledger(time.monotonic)
    candidate = reading.candidate(pod)
    ledger.pod_waiting(candidate, gated=False, version=pod.metadata.resource_version)
    sender = binding_writer.BindingWriter(
        session, ledger, Toucher(touching(session, ledger)), term="old_x/1", clock=time.monotonic
    )
    late = dataclasses.replace(ledger.revisions[candidate.uid])
    if arrives:
        assert await sender.bind(candidate, pods.placement(NODE, pods.CARD)) == ports.Bound()

    seen = await sender.void(candidate)

    if arrives:
        assert seen == ports.Bound()
        return
    assert isinstance(seen, ports.Unbound)
    assert seen.version != late.text
    ledger.revisions[candidate.uid] = late
    answer = await sender.bind(candidate, pods.placement(NODE, pods.CARD))
    assert isinstance(answer, ports.Unknown)
    assert "Precondition failed" in answer.message


async def test_what_a_pod_says_stays(session: RecordingApi, admin: api.Api, namespace: str) -> None:
    """A pod that shows why it waits goes on showing just that, however often it is touched."""
    yard = pods.PodClient(admin, namespace)
    await yard.create(manifests.pod("p"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    path = resources.PODS.path("p", namespace=namespace, sub="status")
    body = json.dumps({"status": {"conditions": [condition]}}).encode()
    await admin.send("PATCH", path, body=body, content=api.STRATEGIC_PATCH)
    seen = []
    for _ in range(3):
        pod, ledger = await yard.read("p"), Ledger(time.monotonic)
        ledger.pod_waiting(reading.candidate(pod), gated=False, version=pod.metadata.resource_version)

        # At the very same moment: what would change nothing is not written, and that is noticed.
        seen.append(await touching(session, ledger, pod_status.observed_condition(pod)).void(EVERYTHING))

    assert len(set(seen)) == 3
    now = await yard.read("p")
    assert now.metadata.resource_version == seen[-1]
    assert pod_status.observed_condition(now) == pod_status.PodCondition("Unschedulable", "full")


async def test_a_bind_that_was_faster_is_found(session: RecordingApi, admin: api.Api, namespace: str) -> None:
    """The pod is left as it is bound, and its revision tells the new leader what it has to know first."""
    yard = pods.PodClient(admin, namespace)
    await yard.create(manifests.pod("p"))
    pod, ledger = await yard.read("p"), Ledger(time.monotonic)
    ledger.pod_waiting(reading.candidate(pod), gated=False, version=pod.metadata.resource_version)
    await yard.bind("p", NODE)

    version = await touching(session, ledger).void(EVERYTHING)

    now = await yard.read("p")
    assert now.spec.node_name == NODE
    assert now.metadata.resource_version == version
    assert pod_status.observed_condition(now) is None


# ---------------------------------------------------------------- which, and what a server may say

PATH = resources.PODS.path("p", namespace="ml", sub="status")
POD = resources.PODS.path("p", namespace="ml")


def waiting(**versions: str) -> Ledger:
    """Make a ledger in which these pods wait."""
    ledger = Ledger(time.monotonic)
    for name, version in versions.items():
        ledger.pod_waiting(builders.candidate(name), gated=False, version=version)
    return ledger


def written(version: str) -> stub.Answer:
    """Answer with a pod in a revision."""
    return stub.thing({"metadata": {"resourceVersion": version}})


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between attempts."""
    monkeypatch.setattr(pod_touches, "PAUSE_SECONDS", (0.0,))


async def test_only_what_was_declared_is_changed() -> None:
    """New pods and those named; the others surely have no bind under way."""
    ledger = waiting(new="12", named="3", other="4")
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path.split("/")[-2])
        return await written("20")(request)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for name in ("new", "named", "other"):
            server.on("PATCH", resources.PODS.path(name, namespace="ml", sub="status"), answer)
        declared = bind_declaration.BindDeclaration(after=10, uids=frozenset({"uid-named"}))
        version = await touching(session, ledger).void(declared)

    assert sorted(asked) == ["named", "new"]
    assert version == "20"


async def test_a_gated_pod_needs_no_change() -> None:
    """Nobody has ever sent a bind of it."""
    ledger = Ledger(time.monotonic)
    ledger.pod_waiting(builders.candidate("p"), gated=True, version="5")

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        assert await touching(session, ledger).void(EVERYTHING) == ""
        assert not server.requests


@pytest.mark.parametrize(
    ("answers", "version", "patches"),
    [
        pytest.param([stub.status(503, "no"), stub.reset(), written("7")], "7", 3, id="trouble is outlasted"),
        pytest.param([stub.status(429, "no"), written("7")], "7", 2, id="patience is kept"),
        pytest.param([written("5"), written("7")], "7", 2, id="nothing was written: another moment"),
        pytest.param([stub.thing({}), written("7")], "7", 2, id="an answer that says nothing"),
        pytest.param([stub.raw(b"backend - 404", code=404), written("7")], "7", 2, id="a 404 of a proxy"),
        pytest.param([stub.status(404, "gone", reason="NotFound")], "", 1, id="the pod is gone"),
    ],
)
async def test_every_answer_is_understood(answers: list[stub.Answer], version: str, patches: int) -> None:
    """A pod counts as changed only when it surely is, or is gone."""
    ledger = waiting(p="5")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", PATH, *answers)

        assert await touching(session, ledger).void(EVERYTHING) == version

    moments = [json.loads(body)["status"]["conditions"][0]["lastProbeTime"] for body in server.bodies]
    assert len(moments) == len(set(moments)) >= patches


@pytest.mark.parametrize(
    ("found", "version"),
    [
        pytest.param([written("9")], "9", id="somebody else has changed it"),
        pytest.param([stub.status(404, "gone", reason="NotFound")], "", id="it is gone"),
        pytest.param([stub.status(503, "no"), written("9")], "9", id="after some trouble"),
    ],
)
async def test_a_pod_in_another_revision_is_read(found: list[stub.Answer], version: str) -> None:
    """It is changed already, and what became of it has to be known."""
    ledger = waiting(p="5")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", PATH, stub.status(409, "another revision"))
        server.on("GET", POD, *found)

        assert await touching(session, ledger).void(EVERYTHING) == version


async def test_it_is_told_how_many_pods_are_changed(caplog: pytest.LogCaptureFixture) -> None:
    """In a sentence that reads as well for a single one."""
    caplog.set_level("INFO", pod_touches.log.name)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", PATH, written("8"))

        await touching(session, waiting(p="5")).void(EVERYTHING)

    assert "waiting pods changed, so that a late bind of an earlier leader is refused: 1" in caplog.text


async def test_a_pod_that_nobody_may_change_does_not_stop_all_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Refused again and again, it is left with a warning."""
    ledger = waiting(p="5", q="6")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", PATH, stub.status(403, "a webhook says no"))
        server.on("PATCH", resources.PODS.path("q", namespace="ml", sub="status"), written("8"))

        version = await asyncio.wait_for(touching(session, ledger).void(EVERYTHING), 10)

    assert version == "8"
    assert "ml/p cannot be changed, so a late bind may arrive" in caplog.text


@pytest.mark.parametrize(
    ("message", "patches"),
    [
        pytest.param("etcdserver: request is too large", 1, id="a bind would be too large as well"),
        pytest.param("internal error", pod_touches.MOST_FAILURES + 1, id="trouble with this pod alone"),
    ],
)
async def test_a_pod_that_the_server_fails_to_change_does_not_stop_all_others(
    message: str, patches: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left in the end, with a warning, and the log does not keep silent about it until then."""
    ledger = waiting(p="5", q="6")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", PATH, stub.status(500, message))
        server.on("PATCH", resources.PODS.path("q", namespace="ml", sub="status"), written("8"))

        version = await asyncio.wait_for(touching(session, ledger).void(EVERYTHING), 30)

    assert version == "8"
    assert len([one for one in server.requests if one.path == PATH]) == patches
    assert "ml/p cannot be changed, so a late bind may arrive" in caplog.text
    assert caplog.text.count("ml/p is not changed yet") == patches // pod_touches.LOGGED_EACH


async def test_a_crowd_at_which_the_server_hangs_delays_a_takeover_only_so_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A webhook may hang for the pods of one namespace: the others are changed meanwhile, then it goes on."""
    monkeypatch.setattr(pod_touches, "FAILING_SECONDS", 1.0)
    crowd = [f"h{number}" for number in range(2 * pod_touches.AT_ONCE)]
    ledger = waiting(**dict.fromkeys(crowd, "5"), q="6")
    slow = stub.status(504, "request did not complete within the allotted timeout")

    async def hanging(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return await slow(request)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for name in crowd:
            server.on("PATCH", resources.PODS.path(name, namespace="ml", sub="status"), hanging)
        server.on("PATCH", resources.PODS.path("q", namespace="ml", sub="status"), written("8"))

        version = await asyncio.wait_for(touching(session, ledger).void(EVERYTHING), 20)

    asked = [one for one in server.requests if "/h0/" in one.path]
    assert version == "8"
    assert 1 < len(asked) < pod_touches.MOST_FAILURES
    assert {one.query["timeout"] for one in asked} == {"3s"}
    assert caplog.text.count("cannot be changed, so a late bind may arrive") == len(crowd)


async def test_a_pod_with_a_fault_needs_no_change() -> None:
    """No bind of it was ever sent."""
    ledger = Ledger(time.monotonic)
    fault = refusals.unsupported("too long")
    one = dataclasses.replace(builders.candidate("p"), faults=(fault,))
    ledger.pod_waiting(one, gated=False, version="5")

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        assert await touching(session, ledger).void(EVERYTHING) == ""
        assert not server.requests


def test_the_patch_is_good_for_one_revision() -> None:
    """A pod that was bound meanwhile must not be told that it is not."""
    candidate: queued_pods.Candidate = builders.candidate("p")

    made: dict[str, Any] = pod_touches.touch(candidate, None, before="5", moment="now")

    assert made["metadata"] == {"uid": candidate.uid, "resourceVersion": "5"}
