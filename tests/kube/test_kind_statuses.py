"""The operator's part of our kinds' status: written where it differs, put right where it was edited."""

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, resources
from berth_operator.engine import node_summaries
from berth_operator.kube import kind_statuses
from berth_operator.scheduling import uuid_records
from kube import servers
from kube.conftest import RecordingApi
from support import clock, manifests, stub

Thing = dict[str, Any]
COUNTS: Thing = {"free": 3, "used": 1, "healthy": 4, "inUse": "0.4", "reason": ""}


class DeviceOnServer:
    """A Device without cards on the real server, and what writes its status, as Kopf would feed it."""

    def __init__(self, session: api.Api, admin: api.Api) -> None:
        self.admin = admin
        self.name = f"statuses-{secrets.token_hex(3)}"
        self.time = clock.Clock()
        self.statuses = kind_statuses.KindStatuses(session, servers.unlimited_statuses(), wall=self.time.wall)

    async def create(self) -> None:
        """Create the Device."""
        await self.admin.create(resources.DEVICES, manifests.device(self.name, 0))

    async def delete(self) -> None:
        """Delete the Device."""
        await self.admin.delete(resources.DEVICES, self.name)

    async def see(self) -> Thing:
        """Hand over what the Device shows now, as an event would, and return it."""
        device = await self.admin.get(resources.DEVICES, self.name, into=dict)
        status: Thing = device.get("status", {})
        self.statuses.seen(names.DEVICES, self.name, status)
        return status

    async def flushed(self) -> Thing:
        """See, flush, and return what the Device shows then."""
        await self.see()
        await self.statuses.flush()
        return await self.see()

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
async def device(session: RecordingApi, admin: api.Api) -> AsyncIterator[DeviceOnServer]:
    """Lend a Device."""
    lent = DeviceOnServer(session, admin)
    await lent.create()
    yield lent
    await lent.delete()


def ready(status: Thing) -> Thing:
    """Return the operator's condition."""
    found: Thing = next((one for one in status.get("conditions", []) if one["type"] == "Ready"), {})
    return found


# ---------------------------------------------------------------- Devices


@pytest.mark.parametrize(
    ("changes", "truth", "reason", "sentence"),
    [
        pytest.param({"reason": "1 card unhealthy"}, "True", "AgentAlive", "renews its Lease", id="alive"),
        pytest.param({"silent": True}, "False", "AgentSilent", "has not renewed its Lease", id="silent"),
        pytest.param({"failed": "LibraryMissing"}, "False", "SourceFailed", "LibraryMissing", id="failed"),
    ],
)
async def test_a_device_shows_counts_and_whether_its_agent_lives(
    device: DeviceOnServer, changes: Thing, truth: str, reason: str, sentence: str
) -> None:
    """The summary and the Ready condition are what the ledger says."""
    device.want(**changes)

    status = await device.flushed()

    assert status["summary"] == COUNTS | {"reason": changes.get("reason", "")}
    assert (ready(status)["status"], ready(status)["reason"]) == (truth, reason)
    assert sentence in ready(status)["message"]


async def test_a_full_pass_writes_what_no_event_has_shown(
    device: DeviceOnServer, session: RecordingApi
) -> None:
    """An edit of which no event came is put right by the next one, and what is right is not written."""
    device.want()
    await device.see()
    await device.statuses.flush()
    await device.edit({"summary": {"free": 50}})
    await device.statuses.flush()

    device.statuses.compare_all()
    await device.statuses.flush()
    status = await device.see()
    device.statuses.compare_all()
    await device.statuses.flush()

    assert status["summary"] == COUNTS
    assert [method for method, _ in session.sent] == ["PATCH", "PATCH"]


async def test_what_is_not_wanted_any_more_is_taken_away(
    device: DeviceOnServer, session: RecordingApi
) -> None:
    """What is shown already is not written again; left out, a value might be that of somebody else, too."""
    came = (("GPU-b", uuid_records.Origin("n7", 60.0)), ("GPU-c", uuid_records.Origin("n8")))
    wanted = {"claims": ("GPU-a", "GPU-b"), "disputed": ("GPU-c",), "origins": came}
    for _ in range(3):
        device.want(reason="1 card unhealthy", **wanted)
        first = await device.flushed()
    writes = len(session.sent)
    device.want()
    last = await device.flushed()

    assert (first["claims"], first["disputed"], writes) == (["GPU-a", "GPU-b"], ["GPU-c"], 1)
    assert first["origins"] == [
        {"uuid": "GPU-b", "node": "n7", "since": "1970-01-01T00:01:00Z"},
        {"uuid": "GPU-c", "node": "n8"},
    ]
    assert last["summary"] == COUNTS
    assert not (last.get("claims") or last.get("disputed") or last.get("origins"))


async def test_a_burst_is_one_write_once_the_device_was_seen(
    device: DeviceOnServer, session: RecordingApi
) -> None:
    """What the Device shows must be known to compare; of many changes only the last one is written."""
    for free in range(4):
        device.want(free=free)
    await device.statuses.flush()
    unseen = len(session.sent)

    status = await device.flushed()

    assert (unseen, len(session.sent)) == (0, 1)
    assert status["summary"]["free"] == 3


async def test_a_transition_is_dated_when_the_truth_changes(device: DeviceOnServer) -> None:
    """And only then, whatever else changes."""
    times = []
    for changes in ({}, {"free": 0}, {"free": 0, "silent": True}):
        device.want(**changes)
        times.append(ready(await device.flushed())["lastTransitionTime"])
        device.time.advance(100)

    first, counted, silent = times
    assert first == counted < silent


@pytest.mark.parametrize(
    "edit",
    [
        {"summary": {"free": 9}},
        {"summary": None},
        {"conditions": []},
        {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "Odd",
                    "message": "by hand",
                    "lastTransitionTime": "2020-01-01T00:00:00Z",
                }
            ]
        },
    ],
    ids=["a count", "the whole summary", "no conditions", "another truth"],
)
async def test_an_edited_status_is_put_right(device: DeviceOnServer, edit: Thing) -> None:
    """Whatever somebody wrote over our part, the next flush after it was seen writes ours again."""
    device.want()
    right = await device.flushed()
    await device.edit(edit)

    status = await device.flushed()

    assert status["summary"] == right["summary"]
    assert {**ready(status), "lastTransitionTime": ""} == {**ready(right), "lastTransitionTime": ""}


async def test_the_agents_part_is_left_alone(device: DeviceOnServer) -> None:
    """Verdicts and conditions of the agent stay as it wrote them."""
    condition = {
        "type": "NVMLReady",
        "status": "False",
        "reason": "DriverGone",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    theirs = {"metadata": {"name": device.name}, "status": {"conditions": [condition]}}
    await device.admin.apply(resources.DEVICES, theirs, manager=names.AGENT_MANAGER, sub="status")

    device.want()
    status = await device.flushed()

    assert condition in status["conditions"]
    assert ready(status)


async def test_a_device_that_is_gone_is_forgotten(device: DeviceOnServer, session: RecordingApi) -> None:
    """A Device deleted unseen costs one refused write; under the same name a new one gets its status."""
    device.want()
    await device.see()
    await device.delete()

    await device.statuses.flush()
    await device.statuses.flush()
    assert len(session.sent) == 1
    await device.create()

    assert (await device.flushed())["summary"]["free"] == 3


@pytest.mark.parametrize(
    ("broken", "sound"),
    [
        pytest.param(resources.DEVICES, resources.POLICIES, id="a Device"),
        pytest.param(resources.POLICIES, resources.DEVICES, id="a policy"),
    ],
)
async def test_no_kind_waits_for_an_object_of_the_other_at_which_the_server_fails(
    server: stub.Stub, stub_session: api.Api, broken: resources.Resource, sound: resources.Resource
) -> None:
    """Devices and policies have their turns in one line, and none is first each time."""
    server.on("PATCH", broken.path("a", sub="status"), stub.status(401, "who?"))
    server.on("PATCH", sound.path("a", sub="status"), stub.thing({}))
    statuses = kind_statuses.KindStatuses(stub_session, servers.unlimited_statuses(), wall=clock.Clock().wall)
    statuses.seen(names.DEVICES, "a", {})
    statuses.update([node_summaries.NodeSummary("a", 1, 0, 1, silent=False)])
    statuses.seen(names.POLICIES, "a", policy("a"))

    for _ in range(4):
        await statuses.flush()

    assert [request.path for request in server.requests].count(sound.path("a", sub="status")) == 1


# ---------------------------------------------------------------- policies


def policy(name: str, **spec: Any) -> Thing:
    """Return a policy."""
    return manifests.own("PlacementPolicy", name, spec={"strategy": "spread"} | spec)


async def test_a_policy_shows_once_that_it_is_in_force(session: RecordingApi, admin: api.Api) -> None:
    """A good policy named default is accepted, in the generation that was read."""
    statuses = kind_statuses.KindStatuses(session, servers.unlimited_statuses(), wall=clock.Clock().wall)
    for _ in range(3):
        statuses.seen(names.POLICIES, "default", await admin.get(resources.POLICIES, "default", into=dict))
        await statuses.flush()

    shown: Thing = await admin.get(resources.POLICIES, "default", into=dict)
    (condition,) = shown["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "InForce")
    assert shown["status"]["observedGeneration"] == shown["metadata"]["generation"]
    assert len(session.sent) <= 1


LAST = "the last good policy stays in force"


@pytest.mark.parametrize(
    ("name", "spec", "reason", "sentences"),
    [
        pytest.param("p", {}, "NotDefault", ["this one is valid but unused"], id="another name"),
        pytest.param(
            "default", {"strategy": "roulette"}, "Invalid", ["'roulette' is not known", LAST], id="word"
        ),
        pytest.param(
            "p", {"agents": {"graceSeconds": 0}}, "Invalid", ["must be positive", LAST], id="no grace"
        ),
        pytest.param(
            "p", {"agents": {"graceSeconds": "soon"}}, "Invalid", ["Expected `int`", LAST], id="shape"
        ),
    ],
)
def test_a_policy_that_is_not_in_force_says_why(
    name: str, spec: Thing, reason: str, sentences: list[str]
) -> None:
    """Whatever got past the schema and makes no sense is refused in words."""
    (condition,) = kind_statuses.policy_status(policy(name, **spec), moment="now")["conditions"]

    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert all(sentence in condition["message"] for sentence in sentences)
