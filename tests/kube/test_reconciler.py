"""Kopf in its thread: it comes back whenever it ends, writes what it should, and ends when told to."""

import asyncio
import contextlib
import dataclasses
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import kopf
import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, resources
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import handlers, kind_statuses, reconciler
from support import clock, stub
from testbed import waiting

Thing = dict[str, Any]


@pytest.fixture
async def name(admin: api.Api) -> AsyncIterator[str]:
    """Lend the name of a Device that exists."""
    lent = f"reconciler-{secrets.token_hex(3)}"
    await create(admin, lent)
    yield lent
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resources.DEVICES, lent)


async def create(admin: api.Api, name: str) -> None:
    """Create a Device without cards."""
    spec = {"node": name, "devices": []}
    thing = {"apiVersion": names.API_VERSION, "kind": "Device", "metadata": {"name": name}, "spec": spec}
    await admin.create(resources.DEVICES, thing)


@contextlib.asynccontextmanager
async def running(link: connection.Connection) -> AsyncIterator[reconciler.Reconciler]:
    """Run a reconciler beside the block."""
    lent = reconciler.Reconciler(
        link, rate_limiter.unlimited(), agent="test-reconciler", wall=clock.Clock().wall
    )
    lent.start()
    try:
        yield lent
    finally:
        await asyncio.to_thread(lent.stop)


def summary(name: str, **changes: Any) -> node_summaries.NodeSummary:
    """Sum a node up."""
    return dataclasses.replace(node_summaries.NodeSummary(name, 4, 0, 4, silent=False), **changes)


async def until_shown(admin: api.Api, name: str, condition: Callable[[Thing], object], what: str) -> None:
    """Wait until a Device's status shows something."""

    async def shown() -> bool:
        found = await admin.get(resources.DEVICES, name, into=dict)
        return bool(condition(found.get("status", {})))

    await waiting.eventually(shown, what=what, seconds=60)


def free(count: int) -> Callable[[Thing], bool]:
    """Ask whether a status shows so many free cards."""
    return lambda status: status.get("summary", {}).get("free") == count


# ---------------------------------------------------------------- what it does


async def test_it_shows_what_it_is_told(account: Path, admin: api.Api, name: str) -> None:
    """A summary handed over from the engine's thread becomes the Device's status, and so does the next."""
    async with running(connection.load(account)) as kopf_:
        kopf_.update([summary(name)])
        await until_shown(admin, name, free(4), "the first summary")

        kopf_.update([summary(name, free=1, used=3)])
        await until_shown(admin, name, free(1), "the second summary")


async def test_it_puts_right_what_was_edited(account: Path, admin: api.Api, name: str) -> None:
    """An edit of our part is undone without anything new from the engine; a recreated Device is filled in."""
    async with running(connection.load(account)) as kopf_:
        kopf_.update([summary(name)])
        await until_shown(admin, name, free(4), "the summary")

        path = resources.DEVICES.path(name, sub="status")
        await admin.send("PATCH", path, body=b'{"status": {"summary": {"free": 9}}}', content=api.MERGE_PATCH)
        await until_shown(admin, name, free(4), "the summary again")

        await admin.delete(resources.DEVICES, name)
        await create(admin, name)
        await until_shown(admin, name, free(4), "the summary of the new Device")


async def test_it_judges_policies(account: Path, admin: api.Api, namespace: str) -> None:
    """A policy gets its condition by itself."""
    policy = f"reconciler-{namespace}"
    spec = {"strategy": "spread"}
    thing = {
        "apiVersion": names.API_VERSION,
        "kind": "PlacementPolicy",
        "metadata": {"name": policy},
        "spec": spec,
    }

    async def told() -> bool:
        found = await admin.get(resources.POLICIES, policy, into=dict)
        return bool(found.get("status", {}).get("conditions"))

    async with running(connection.load(account)):
        await admin.create(resources.POLICIES, thing)
        await waiting.eventually(told, what="the condition", seconds=20)
    await admin.delete(resources.POLICIES, policy)


async def test_a_server_under_another_name(account: Path, admin: api.Api, name: str) -> None:
    """A kubeconfig's tls-server-name holds for Kopf's requests as it does for ours."""
    link = connection.load(account)
    if not socket.has_ipv6:
        pytest.skip("only IPv6 has another way to write this machine's address")
    odd = link.server.replace("127.0.0.1", "[::ffff:127.0.0.1]")  # The same address; no certificate says it.
    async with running(dataclasses.replace(link, server=odd, server_name="kubernetes")) as kopf_:
        kopf_.update([summary(name)])

        await until_shown(admin, name, free(4), "the summary")


# ---------------------------------------------------------------- when Kopf ends


async def raising(error: BaseException | None) -> None:
    """End like this."""
    if error is not None:
        raise error


def failing(first: list[BaseException | None], ended: list[str]) -> Callable[..., Any]:
    """Make a Kopf that ends like this, one after the other, and then is the real one."""
    real = kopf.spawn_tasks

    async def spawn_tasks(**settings: Any) -> Any:
        ended.append("started")
        if not first:
            return await real(**settings)
        return [asyncio.create_task(raising(first.pop(0)))]

    return spawn_tasks


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(RuntimeError("the API said 401"), id="an error"),
        pytest.param(asyncio.CancelledError(), id="cancelled from within"),
        pytest.param(None, id="by itself"),
    ],
)
async def test_kopf_is_started_again(
    account: Path, admin: api.Api, name: str, end: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However Kopf ends, it is started again, and in the end all is shown."""
    started: list[str] = []
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))
    monkeypatch.setattr(kopf, "spawn_tasks", failing([end, end], started))

    async with running(connection.load(account)) as kopf_:
        kopf_.update([summary(name)])
        await until_shown(admin, name, free(4), "the summary")

    assert started == ["started"] * 3


VERBS = ["get", "list", "patch", "watch"]


def kinds(*plurals: str) -> Thing:
    """Make the answer of a server that is asked which of our kinds there are."""
    found = [
        {"name": one, "kind": one, "singularName": one, "namespaced": False, "verbs": VERBS}
        for one in plurals
    ]
    return {"kind": "APIResourceList", "groupVersion": names.API_VERSION, "resources": found}


def groups(*group_names: str) -> Thing:
    """Make the answer of a server that is asked which groups there are."""
    version = {"groupVersion": names.API_VERSION, "version": names.VERSION}
    found = [{"name": one, "versions": [version], "preferredVersion": version} for one in group_names]
    return {"kind": "APIGroupList", "groups": found}


@pytest.mark.parametrize(
    ("first_groups", "first_kinds", "missing"),
    [
        pytest.param(
            groups(), kinds(names.DEVICES, names.POLICIES), "devices and placementpolicies", id="none"
        ),
        pytest.param(groups(names.GROUP), kinds(names.DEVICES), "placementpolicies", id="one kind"),
    ],
)
async def test_a_server_that_does_not_name_our_kinds_yet(
    first_groups: Thing,
    first_kinds: Thing,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kopf asks once which kinds there are: one that found less than all is not the last."""
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))
    device = {"metadata": {"name": "n1", "resourceVersion": "1"}, "status": {}}
    path = resources.DEVICES.path("n1", sub="status")
    all_kinds = kinds(names.DEVICES, names.POLICIES)
    discovery = f"/apis/{names.API_VERSION}"
    silent = stub.watch(until=asyncio.Event())

    async with stub.Stub() as server:
        server.on("GET", "/api", stub.thing({"versions": ["v1"]}))
        server.on("GET", "/api/v1", stub.thing(kinds("namespaces")))
        server.on("GET", "/apis", stub.thing(first_groups), stub.thing(groups(names.GROUP)))
        first = [] if not first_groups["groups"] else [stub.thing(first_kinds)]
        server.on("GET", discovery, *first, stub.thing(all_kinds))
        for resource, items in ((resources.DEVICES, [device]), (resources.POLICIES, [])):
            answers = {"": stub.page(*items, version="2"), "true": silent}
            server.on("GET", resource.path(), stub.by_query("watch", answers))
        server.on("PATCH", path, stub.thing({}))
        async with running(server.link) as kopf_:
            kopf_.update([summary("n1")])
            await waiting.eventually(
                lambda: asyncio.sleep(0, any(one.method == "PATCH" for one in server.requests)),
                what="the status",
            )

    said = [one.message for one in caplog.records if "Kopf ended" in one.message]
    assert said == [f"Kopf ended: the API server did not name {missing} of {names.GROUP} yet"]


async def test_a_flush_that_fails_is_not_the_last(
    account: Path, admin: api.Api, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in one flush is said, and the next one writes."""
    real, faults = kind_statuses.KindStatuses.flush, [ValueError("a fault of ours")] * 2

    async def flush(desk: Any) -> None:
        if faults:
            raise faults.pop()
        await real(desk)

    monkeypatch.setattr(kind_statuses.KindStatuses, "flush", flush)

    async with running(connection.load(account)) as kopf_:
        kopf_.update([summary(name)])
        await until_shown(admin, name, free(4), "the summary")


async def test_it_ends_when_told_to(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends soon, whether Kopf runs or is waited for, and news after that harm nobody."""
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (3600.0,))
    link = connection.load(account)
    nowhere = dataclasses.replace(link, server="https://127.0.0.1:9")

    for one in (link, nowhere):
        async with running(one) as kopf_:
            pass
        kopf_.update([summary("nobody")])

    assert not [one for one in threading.enumerate() if one.name in {"reconciler", "kopf"}]


# ---------------------------------------------------------------- handlers


class Desk:
    """A desk that only notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def device_seen(self, name: str, status: Thing, version: str) -> None:
        """Note."""
        self.told.append((name, (status, version)))

    def device_gone(self, name: str) -> None:
        """Note."""
        self.told.append((name, "lost"))

    def policy_seen(self, body: Thing) -> None:
        """Note."""
        self.told.append(("policy", body))

    def policy_gone(self, name: str) -> None:
        """Note."""
        self.told.append((name, "lost"))


async def test_handlers_are_thin() -> None:
    """Each handler hands over the few plain values needed, and returns nothing: Kopf would store it."""
    registry, desk = kopf.OperatorRegistry(), Desk()
    handlers.register(registry, desk)
    functions: list[Any] = [one.fn for one in registry._watching._handlers]
    device, policy = functions
    meta = {"resourceVersion": "7"}

    returned = [
        await device(type="ADDED", name="n1", meta=meta, status={"summary": {}, "devices": [{"minor": 0}]}),
        await device(type=None, name="n2", meta={}, status={}),
        await device(type="DELETED", name="n1", meta=meta, status={}),
        await policy(type="MODIFIED", name="default", body={"metadata": {"name": "default"}}),
        await policy(type="DELETED", name="default", body={"metadata": {"name": "default"}}),
    ]

    assert returned == [None] * 5
    assert desk.told == [
        ("n1", ({"summary": {}}, "7")),
        ("n2", ({}, "")),
        ("n1", "lost"),
        ("policy", {"metadata": {"name": "default"}}),
        ("default", "lost"),
    ]
