"""After the touches of a new leader no bind of an earlier one can arrive, whatever came in between."""

import asyncio
import dataclasses
import datetime as dt
import itertools
import json
import time
from typing import Any, cast

import pytest
from aiohttp import web

from berth_crds.client import api, resources
from berth_operator.engine import bind_declarer, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import pod_status, pod_touches
from berth_operator.scheduling import queued_pods
from berth_operator.translate import refusals
from kube.binding_writers import NODE, Lead, Writer, waiting_pod
from support import builders, manifests, pods, stub, timeless

EVERYTHING = bind_declarer.EVERYTHING
MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
UNBINDABLE = "cannot be changed, so a late bind may arrive"


def touching(
    session: api.Api, ledger: Ledger, shown: pod_status.PodCondition | None = None
) -> pod_touches.PodTouches:
    """Return what changes the pods of a ledger, all of which show this, at one moment."""
    return pod_touches.PodTouches(
        session, ledger, lambda _: shown, lambda _: 0, _confirmed, wall=lambda: MOMENT
    )


async def _confirmed() -> None:
    """Find the lead confirmed at once."""


# ---------------------------------------------------------------- on a real server


async def test_a_bind_that_is_late_is_void(session: api.Api, pod_client: pods.PodClient) -> None:
    """What an old leader decided on the pod as it was finds another revision."""
    await pod_client.create(manifests.pod("p"))
    pod_info, old = await waiting_pod(pod_client)
    _, new = await waiting_pod(pod_client)

    version = await touching(session, new).void(EVERYTHING)
    answer = await Writer(session, old).bind_to(pod_info)

    pod = await pod_client.read("p")
    assert isinstance(answer, ports.Unknown)
    assert "Precondition failed" in answer.message
    assert (pod.spec.node_name, pod.metadata.resource_version) == ("", version)
    leader_changed = pod_status.PodCondition(pod_touches.REASON, pod_touches.MESSAGE)
    assert pod_status.observed_condition(pod) == leader_changed


class TouchingLead(Lead):
    """A lead that can change pods."""

    def __init__(self, touches: pod_touches.PodTouches) -> None:
        super().__init__()
        self._touches = touches

    async def touch(self, pod_info: queued_pods.PodInfo, version: str) -> None:
        """Change a pod."""
        await self._touches.touch(pod_info, version)


async def test_a_bind_that_is_given_up_is_void(session: api.Api, pod_client: pods.PodClient) -> None:
    """If the pod is still unbound after the change, no bind that was sent before can be carried out."""
    await pod_client.create(manifests.pod("p"))
    pod_info, ledger = await waiting_pod(pod_client)
    writer = Writer(session, ledger, TouchingLead(touching(session, ledger)))
    late = dataclasses.replace(ledger.revisions[pod_info.uid])

    seen = await writer.void(pod_info)
    ledger.revisions[pod_info.uid] = late
    answer = await writer.bind_to(pod_info)

    assert isinstance(seen, ports.Unbound)
    assert seen.version != late.text
    assert isinstance(answer, ports.Unknown)
    assert "Precondition failed" in answer.message


async def test_a_bind_that_arrived_meanwhile_is_found(session: api.Api, pod_client: pods.PodClient) -> None:
    """It is not given up: the pod is bound."""
    await pod_client.create(manifests.pod("p"))
    pod_info, ledger = await waiting_pod(pod_client)
    writer = Writer(session, ledger, TouchingLead(touching(session, ledger)))

    assert await writer.bind_to(pod_info) == ports.Bound()
    assert await writer.void(pod_info) == ports.Bound()


async def test_what_a_pod_says_stays(session: api.Api, pod_client: pods.PodClient) -> None:
    """A pod that shows why it waits goes on showing just that, however often it is touched."""
    await pod_client.create(manifests.pod("p"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    await pod_client.patch("p", {"status": {"conditions": [condition]}}, sub="status")
    shown = pod_status.PodCondition("Unschedulable", "full")
    seen = []
    for _ in range(3):
        _, ledger = await waiting_pod(pod_client)

        # At the very same moment: what would change nothing is not written, and that is noticed.
        seen.append(await touching(session, ledger, shown).void(EVERYTHING))

    pod = await pod_client.read("p")
    assert len(set(seen)) == 3
    assert pod.metadata.resource_version == seen[-1]
    assert pod_status.observed_condition(pod) == shown


async def test_a_bind_that_was_faster_is_found(session: api.Api, pod_client: pods.PodClient) -> None:
    """The pod is left as it is bound, and its revision tells the new leader what it has to know first."""
    await pod_client.create(manifests.pod("p"))
    _, ledger = await waiting_pod(pod_client)
    await pod_client.bind("p", NODE)

    version = await touching(session, ledger).void(EVERYTHING)

    pod = await pod_client.read("p")
    assert (pod.spec.node_name, pod.metadata.resource_version) == (NODE, version)
    assert pod_status.observed_condition(pod) is None


# ---------------------------------------------------------------- which, and what a server may say

POD = resources.PODS.path("p", namespace="ml")


def status_of(name: str) -> str:
    """Return the path of a pod's status."""
    return resources.PODS.path(name, namespace="ml", sub="status")


def waiting(**versions: str) -> Ledger:
    """Return a ledger in which these pods wait."""
    ledger = Ledger(time.monotonic)
    for name, version in versions.items():
        ledger.pod_waiting(builders.pod_info(name), gated=False, version=version)
    return ledger


def written(version: str) -> stub.Answer:
    """Answer with a pod in a revision."""
    return stub.thing({"metadata": {"resourceVersion": version}})


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between attempts."""
    monkeypatch.setattr(pod_touches, "PAUSE_SECONDS", (0.0,))


async def test_only_what_was_declared_is_changed(
    server: stub.Stub, stub_session: api.Api, caplog: pytest.LogCaptureFixture
) -> None:
    """New pods and those named; the others surely have no bind under way. The log says how many."""
    caplog.set_level("INFO", pod_touches.log.name)
    ledger = waiting(new="12", named="3", other="4")
    for name in ("new", "named", "other"):
        server.on("PATCH", status_of(name), written("20"))

    declared = bind_declarer.BindDeclaration(after=10, uids=frozenset({"uid-named"}))
    version = await touching(stub_session, ledger).void(declared)

    assert {request.path for request in server.requests} == {status_of("named"), status_of("new")}
    assert version == "20"
    assert "waiting pods changed, so that a late bind of an earlier leader is refused: 2" in caplog.text


async def test_a_pod_in_which_we_find_a_fault_is_changed_like_others(
    server: stub.Stub, stub_session: api.Api
) -> None:
    """The last leader may have found none: what all pods take together is chance, and versions differ."""
    ledger = Ledger(time.monotonic)
    ledger.pod_waiting(
        builders.pod_info(faults=(refusals.unsupported("too much"),)), gated=False, version="5"
    )
    server.on("PATCH", status_of("p"), written("20"))

    assert await touching(stub_session, ledger).void(EVERYTHING) == "20"


async def test_a_pod_that_was_never_bound_needs_no_change(server: stub.Stub, stub_session: api.Api) -> None:
    """Nobody has ever sent a bind of one that is gated."""
    ledger = Ledger(time.monotonic)
    ledger.pod_waiting(builders.pod_info(), gated=True, version="5")

    assert await touching(stub_session, ledger).void(EVERYTHING) == ""
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
async def test_every_answer_is_understood(
    server: stub.Stub, stub_session: api.Api, answers: list[stub.Answer], version: str, patches: int
) -> None:
    """A pod counts as changed only when it surely is, or is gone."""
    server.on("PATCH", status_of("p"), *answers)

    assert await touching(stub_session, waiting(p="5")).void(EVERYTHING) == version

    moments = [json.loads(body)["status"]["conditions"][0]["lastProbeTime"] for body in server.bodies]
    assert len(moments) == len(set(moments)) == patches


@pytest.mark.parametrize(
    ("found", "version"),
    [
        pytest.param([written("9")], "9", id="somebody else has changed it"),
        pytest.param([stub.status(404, "gone", reason="NotFound")], "", id="it is gone"),
        pytest.param([stub.status(503, "no"), written("9")], "9", id="after some trouble"),
    ],
)
async def test_a_pod_in_another_revision_is_read(
    server: stub.Stub, stub_session: api.Api, found: list[stub.Answer], version: str
) -> None:
    """It is changed already, and what became of it has to be known."""
    server.on("PATCH", status_of("p"), stub.status(409, "another revision"))
    server.on("GET", POD, *found)

    assert await touching(stub_session, waiting(p="5")).void(EVERYTHING) == version


@pytest.mark.parametrize(
    ("answer", "patches"),
    [
        pytest.param(stub.status(403, "a webhook says no"), pod_touches.MOST_REFUSALS + 1, id="refused"),
        pytest.param(
            stub.status(500, "etcdserver: request is too large"), 1, id="too large for a bind as well"
        ),
        pytest.param(stub.status(500, "internal error"), pod_touches.MOST_FAILURES + 1, id="another failure"),
    ],
)
async def test_a_pod_that_cannot_be_changed_does_not_stop_all_others(
    server: stub.Stub,
    stub_session: api.Api,
    answer: stub.Answer,
    patches: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is left in the end, with a warning, and the log does not keep silent about it until then."""
    server.on("PATCH", status_of("p"), answer)
    server.on("PATCH", status_of("q"), written("8"))

    version = await asyncio.wait_for(touching(stub_session, waiting(p="5", q="6")).void(EVERYTHING), 30)

    assert version == "8"
    assert [request.path for request in server.requests].count(status_of("p")) == patches
    assert f"ml/p {UNBINDABLE}" in caplog.text
    assert caplog.text.count("ml/p is not changed yet") == patches // pod_touches.LOGGED_EACH


async def test_a_crowd_at_which_the_server_hangs_delays_a_takeover_only_so_long(
    server: stub.Stub,
    stub_session: api.Api,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A webhook may hang for the pods of one namespace: the others are changed meanwhile, then it goes on."""
    monkeypatch.setattr(pod_touches, "FAILING_SECONDS", 3.0)
    crowd = [f"h{number}" for number in range(2 * pod_touches.MOST_AT_ONCE)]
    slow = stub.status(504, "request did not complete within the allotted timeout")

    async def hanging(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return await slow(request)

    for name in crowd:
        server.on("PATCH", status_of(name), hanging)
    server.on("PATCH", status_of("q"), written("8"))

    ledger = waiting(**dict.fromkeys(crowd, "5"), q="6")
    version = await asyncio.wait_for(touching(stub_session, ledger).void(EVERYTHING), 20)

    asked = [request for request in server.requests if request.path == status_of("h0")]
    assert version == "8"
    assert 1 < len(asked) < pod_touches.MOST_FAILURES
    assert {request.query["timeout"] for request in asked} == {"3s"}
    assert caplog.text.count(UNBINDABLE) == len(crowd)


def test_the_patch_is_good_for_one_revision() -> None:
    """A pod that was bound meanwhile must not be told that it is not."""
    patch = pod_touches.touch(builders.pod_info("p"), None, before="5", moment="now")

    assert patch["metadata"] == {"uid": "uid-p", "resourceVersion": "5"}


# ---------------------------------------------------------------- how many at once

MIB = 1 << 20


class BusyServer:
    """A session whose writes need a tenth of a second each; it notes what is under way at once."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.under_way: list[str] = []
        self.ended: list[str] = []
        self.most_bytes = self.most_pods = 0
        self.began = dict[str, float]()

    async def send(self, _method: str, path: str, **_: Any) -> bytes:
        """Write a pod."""
        name = path.split("/")[-2]
        self.under_way.append(name)
        self.began[name] = asyncio.get_running_loop().time()
        self.most_bytes = max(self.most_bytes, sum(map(self.sizes.__getitem__, self.under_way)))
        self.most_pods = max(self.most_pods, len(self.under_way))
        await asyncio.sleep(0.1)
        self.under_way.remove(name)
        self.ended.append(name)
        return b'{"metadata":{"resourceVersion":"9"}}'


@timeless.scenario
async def test_large_pods_are_changed_a_few_at_a_time_and_small_ones_first() -> None:
    """However large the pods of a crowd are, the server has its Lease to renew beside."""
    small, large = [f"p-{number}" for number in range(64)], [f"large-{number}" for number in range(40)]
    sizes = dict.fromkeys(large, MIB) | {"huge": 8 * MIB} | dict.fromkeys(small, 0)
    server = BusyServer(sizes)
    touches = pod_touches.PodTouches(
        cast(api.Api, server),
        waiting(**dict.fromkeys(sizes, "5")),
        condition_of=lambda _: None,
        size_of=lambda uid: sizes[uid.removeprefix("uid-")],
        wait_confirmed=_confirmed,
        wall=lambda: MOMENT,
    )

    assert await touches.void(EVERYTHING) == "9"

    assert sorted(server.ended) == sorted(sizes)
    assert server.most_bytes == 8 * MIB  # The one that is alone.
    assert server.most_pods == pod_touches.MOST_AT_ONCE
    assert {*[*server.began][:64]} == {*small}
    assert server.ended[-1] == "huge"


@timeless.scenario
async def test_a_crowd_is_changed_a_few_at_first_and_only_while_the_lead_is_confirmed() -> None:
    """A server with little time answers few at a time, and has to answer our renewal among them."""
    pods_ = [f"p-{number}" for number in range(64)]
    server, confirmed = BusyServer(dict.fromkeys(pods_, 0)), asyncio.Event()
    touches = pod_touches.PodTouches(
        cast(api.Api, server),
        waiting(**dict.fromkeys(pods_, "5")),
        condition_of=lambda _: None,
        size_of=lambda _: 0,
        wait_confirmed=lambda: _wait(confirmed),
        wall=lambda: MOMENT,
    )

    void = asyncio.create_task(touches.void(EVERYTHING))
    await timeless.passing(5.0)
    assert server.began == {}
    confirmed.set()
    await void

    at_once = [len([*same]) for _, same in itertools.groupby(server.began.values())]
    assert at_once == [4, 8, 16, 32, 4]


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
