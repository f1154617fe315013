"""The operator's part of our kinds' status: written where it differs, put right where it was edited."""

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, resources
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import kind_statuses
from berth_operator.scheduling import uuid_records
from kube.conftest import RecordingApi
from support import clock, stub

Thing = dict[str, Any]
COUNTS: Thing = {"free": 3, "used": 1, "healthy": 4, "inUse": "0.4"}


class Desk:
    """Statuses at work on one Device, as Kopf would feed them."""

    def __init__(self, session: api.Api, admin: api.Api, name: str) -> None:
        self.admin = admin
        self.name = name
        self.time = clock.Clock()
        self.statuses = kind_statuses.KindStatuses(session, rate_limiter.unlimited(), wall=self.time.wall)

    async def device(self) -> Thing:
        """Read the Device."""
        return await self.admin.get(resources.DEVICES, self.name, into=dict)

    async def see(self) -> Thing:
        """Hand over what the Device shows now, as an event would."""
        status: Thing = (await self.device()).get("status", {})
        self.statuses.device_seen(self.name, status)
        return status

    async def flushed(self) -> Thing:
        """See, flush, and give what the Device shows then."""
        await self.see()
        await self.statuses.flush()
        status: Thing = (await self.device()).get("status", {})
        return status

    def want(self, **changes: Any) -> None:
        """Hand over a summary."""
        usual: Thing = {"free": 3, "used": 1, "healthy": 4, "silent": False, "in_use": "0.4"}
        self.statuses.update([node_summaries.NodeSummary(self.name, **(usual | changes))])

    async def edit(self, change: Mapping[str, Any]) -> None:
        """Edit the status by hand."""
        path = resources.DEVICES.path(self.name, sub="status")
        body = msgspec.json.encode({"status": change})
        await self.admin.send("PATCH", path, body=body, content=api.MERGE_PATCH)


@pytest.fixture
async def desk(session: RecordingApi, admin: api.Api) -> AsyncIterator[Desk]:
    """Lend a desk with a Device."""
    name = f"statuses-{secrets.token_hex(3)}"
    await admin.create(resources.DEVICES, device(name))
    yield Desk(session, admin, name)
    await admin.delete(resources.DEVICES, name)


def device(name: str) -> Thing:
    """Make a Device without cards."""
    meta = {"name": name}
    spec = {"node": name, "devices": []}
    return {"apiVersion": names.API_VERSION, "kind": "Device", "metadata": meta, "spec": spec}


def ready(status: Thing) -> Thing:
    """Return the operator's condition."""
    found = [one for one in status.get("conditions", []) if one["type"] == "Ready"]
    return found[0] if found else {}


# ---------------------------------------------------------------- Devices


async def test_a_device_shows_counts_and_whether_its_agent_lives(desk: Desk) -> None:
    """The summary and the Ready condition are what the ledger says."""
    desk.want(reason="1 card unhealthy")

    status = await desk.flushed()

    assert status["summary"] == COUNTS | {"reason": "1 card unhealthy"}
    assert (ready(status)["status"], ready(status)["reason"]) == ("True", "AgentAlive")


async def test_a_device_records_which_uuids_are_its_own(desk: Desk, session: RecordingApi) -> None:
    """They are written with the counts, once; and taken away when none are left; so are disputes."""
    came = (("GPU-b", uuid_records.Origin("n7", 60.0)), ("GPU-c", uuid_records.Origin("n8")))
    desk.want(claims=("GPU-a", "GPU-b"), disputed=("GPU-c",), origins=came)
    first = await desk.flushed()
    await desk.flushed()
    count = len(session.sent)
    desk.want()
    last = await desk.flushed()

    assert (first["claims"], first["disputed"], count) == (["GPU-a", "GPU-b"], ["GPU-c"], 1)
    assert first["origins"] == [
        {"uuid": "GPU-b", "node": "n7", "since": "1970-01-01T00:01:00Z"},
        {"uuid": "GPU-c", "node": "n8"},
    ]
    assert not (last.get("claims") or last.get("disputed") or last.get("origins"))


async def test_what_is_shown_already_is_not_written(desk: Desk, session: RecordingApi) -> None:
    """The same summary, seen and wanted again and again, is one write."""
    for _ in range(3):
        desk.want()
        await desk.flushed()

    assert len(session.sent) == 1


async def test_a_burst_is_one_write(desk: Desk, session: RecordingApi) -> None:
    """Many changes between two flushes are one write, of the last one."""
    for free in range(4):
        desk.want(free=free)

    status = await desk.flushed()

    assert len(session.sent) == 1
    assert status["summary"]["free"] == 3


async def test_the_reason_goes_when_it_is_over(desk: Desk) -> None:
    """A reason that is not wanted any more is said to be none: left out, it might be somebody else's, too."""
    desk.want(reason="1 card unhealthy")
    await desk.flushed()

    desk.want()

    assert (await desk.flushed())["summary"] == COUNTS | {"reason": ""}


async def test_a_silent_agent_is_told_with_the_moment(desk: Desk) -> None:
    """The transition is dated when the truth changes, and only then."""
    desk.want()
    before = ready(await desk.flushed())
    desk.time.advance(100)
    desk.want(free=0)
    counted = ready(await desk.flushed())

    desk.want(free=0, silent=True)
    silent = ready(await desk.flushed())

    assert counted["lastTransitionTime"] == before["lastTransitionTime"]
    assert (silent["status"], silent["reason"]) == ("False", "AgentSilent")
    assert silent["lastTransitionTime"] > before["lastTransitionTime"]


async def test_a_node_that_gives_nothing_out_is_not_ready(desk: Desk) -> None:
    """Its agent is alive, and the condition says which of its sources failed."""
    desk.want()
    await desk.flushed()

    desk.want(free=0, failed="LibraryMissing")
    shown = ready(await desk.flushed())

    assert (shown["status"], shown["reason"]) == ("False", "SourceFailed")
    assert "LibraryMissing" in shown["message"]


@pytest.mark.parametrize(
    "edit",
    [
        {"summary": {"free": 9}},
        {"summary": None},
        {"conditions": []},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Odd", "message": "by hand"}]},
    ],
    ids=["a count", "the whole summary", "no conditions", "another truth"],
)
async def test_an_edited_status_is_put_right(desk: Desk, edit: Thing) -> None:
    """Whatever somebody wrote over our part, the next flush after it was seen writes ours again."""
    desk.want()
    right = await desk.flushed()
    stamped = {**edit}
    for one in stamped.get("conditions", []):
        one["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    await desk.edit(stamped)

    status = await desk.flushed()

    assert status["summary"] == right["summary"]
    assert {**ready(status), "lastTransitionTime": ""} == {**ready(right), "lastTransitionTime": ""}


async def test_the_agents_part_is_left_alone(desk: Desk) -> None:
    """Verdicts and conditions of the agent stay as it wrote them."""
    condition = {
        "type": "NVMLReady",
        "status": "False",
        "reason": "DriverGone",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    theirs = {"metadata": {"name": desk.name}, "status": {"conditions": [condition]}}
    await desk.admin.apply(resources.DEVICES, theirs, manager=names.AGENT_MANAGER, sub="status")

    desk.want()
    status = await desk.flushed()

    assert condition in status["conditions"]
    assert ready(status)


async def test_a_device_that_is_gone_is_forgotten(desk: Desk, session: RecordingApi) -> None:
    """A Device deleted unseen costs one refused write; under the same name a new one gets its status."""
    desk.want()
    await desk.see()
    await desk.admin.delete(resources.DEVICES, desk.name)

    await desk.statuses.flush()
    await desk.statuses.flush()
    assert len(session.sent) == 1
    await desk.admin.create(resources.DEVICES, device(desk.name))

    assert (await desk.flushed())["summary"]["free"] == 3


async def test_nothing_is_written_before_the_device_was_seen(desk: Desk, session: RecordingApi) -> None:
    """A summary alone is no reason to write: what the Device shows must be known to compare."""
    desk.want()

    await desk.statuses.flush()

    assert session.sent == []


@pytest.mark.parametrize(
    ("broken", "sound"),
    [
        pytest.param(resources.DEVICES, resources.POLICIES, id="a Device"),
        pytest.param(resources.POLICIES, resources.DEVICES, id="a policy"),
    ],
)
async def test_no_kind_waits_for_an_object_of_the_other_at_which_the_server_fails(
    broken: resources.Resource, sound: resources.Resource
) -> None:
    """Devices and policies have their turns in one line, and none is first each time."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", broken.path("a", sub="status"), *[stub.status(401, "who?")] * 9)
        server.on("PATCH", sound.path("a", sub="status"), stub.thing({}))
        statuses = kind_statuses.KindStatuses(session, rate_limiter.unlimited(), wall=clock.Clock().wall)
        statuses.device_seen("a", {})
        statuses.update([node_summaries.NodeSummary("a", 1, 0, 1, silent=False)])
        statuses.policy_seen(policy("a"))

        for _ in range(4):
            await statuses.flush()

    assert len([one for one in server.requests if one.path == sound.path("a", sub="status")]) == 1


# ---------------------------------------------------------------- policies


async def judged(
    session: RecordingApi, admin: api.Api, name: str, *, seen: Thing | None = None, times: int = 1
) -> Thing:
    """Hand a policy over as it is (or changed as told), flush, and give its condition."""
    statuses = kind_statuses.KindStatuses(session, rate_limiter.unlimited(), wall=clock.Clock().wall)
    for _ in range(times):
        body = await admin.get(resources.POLICIES, name, into=dict)
        statuses.policy_seen(body | (seen or {}))
        await statuses.flush()
    found: Thing = await admin.get(resources.POLICIES, name, into=dict)
    (condition,) = found["status"]["conditions"]
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    return dict(condition)


async def test_the_default_policy_is_in_force(session: RecordingApi, admin: api.Api) -> None:
    """A good policy named default is told accepted, once."""
    condition = await judged(session, admin, "default", times=3)

    assert (condition["status"], condition["reason"]) == ("True", "InForce")
    assert len(session.sent) <= 1


async def test_another_policy_rests(session: RecordingApi, admin: api.Api, namespace: str) -> None:
    """A good policy of another name is told that it is not the one."""
    name = f"p-{namespace}"
    await admin.create(resources.POLICIES, policy(name))

    condition = await judged(session, admin, name)

    assert (condition["status"], condition["reason"]) == ("False", "NotDefault")
    await admin.delete(resources.POLICIES, name)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"strategy": "roulette"}, "'roulette' is not known"),
        ({"agents": {"graceSeconds": 0}}, "must be positive"),
        ({"agents": {"graceSeconds": "soon"}}, "Expected `int`"),
    ],
    ids=["unknown strategy", "no grace", "another shape"],
)
async def test_a_bad_policy_is_told_so(
    session: RecordingApi, admin: api.Api, namespace: str, spec: Thing, sentence: str
) -> None:
    """Whatever got past the schema and makes no sense is refused in words, and the last good one stays."""
    name = f"bad-{namespace}"
    await admin.create(resources.POLICIES, policy(name))

    condition = await judged(session, admin, name, seen={"spec": spec})

    assert (condition["status"], condition["reason"]) == ("False", "Invalid")
    assert sentence in condition["message"]
    assert "the last good policy stays in force" in condition["message"]
    await admin.delete(resources.POLICIES, name)


def policy(name: str) -> Thing:
    """Make a good policy."""
    spec = {"strategy": "spread"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "PlacementPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
