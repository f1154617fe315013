"""Kopf in its thread: it comes back whenever it ends, writes what it should, and ends when told to."""

import asyncio
import contextlib
import dataclasses
import getpass
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kopf
import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, resources
from berth_operator.kube import kind_statuses, reconciler
from kube import eventually
from kube.reconcilers import STATUS, Thing, groups, kinds, running, serve, summary
from support import manifests, stub
from testbed import waiting


class DeviceOnServer:
    """A Device without cards on the real server."""

    def __init__(self, admin: api.Api) -> None:
        self.admin = admin
        self.name = f"reconciler-{secrets.token_hex(3)}"

    async def create(self) -> None:
        """Create it."""
        await self.admin.create(resources.DEVICES, manifests.device(self.name, 0))

    async def delete(self) -> None:
        """Delete it, if it is there."""
        with contextlib.suppress(errors.NotFound):
            await self.admin.delete(resources.DEVICES, self.name)

    async def until_free(self, count: int) -> None:
        """Wait until it shows so many free cards."""

        async def shown() -> bool:
            found = await self.admin.get(resources.DEVICES, self.name, into=dict)
            return bool(found.get("status", {}).get("summary", {}).get("free") == count)

        await waiting.eventually(shown, what=f"{count} free cards", seconds=60)


@pytest.fixture
async def device(admin: api.Api) -> AsyncIterator[DeviceOnServer]:
    """Lend a Device."""
    lent = DeviceOnServer(admin)
    await lent.create()
    yield lent
    await lent.delete()


# ---------------------------------------------------------------- what it does


async def test_it_shows_what_it_is_given_and_puts_right_what_was_edited(
    account: Path, device: DeviceOnServer
) -> None:
    """Each summary becomes the Device's status; an edit of our part is undone, a new Device filled in."""
    async with running(connection.load(account)) as reconciler_:
        for free in (1, 4):
            reconciler_.update([summary(device.name, free=free)])
            await device.until_free(free)

        path = resources.DEVICES.path(device.name, sub="status")
        edit = b'{"status": {"summary": {"free": 9}}}'
        await device.admin.send("PATCH", path, body=edit, content=api.MERGE_PATCH)
        await device.until_free(4)

        await device.delete()
        await device.create()
        await device.until_free(4)


async def test_its_user_needs_no_name(
    account: Path, device: DeviceOnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the operator in its image is a number only, which Kopf would end on."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 65532)
    with pytest.raises(KeyError, match="65532"):
        getpass.getuser()

    async with running(connection.load(account)) as reconciler_:
        reconciler_.update([summary(device.name)])

        await device.until_free(4)


async def test_it_judges_policies(account: Path, admin: api.Api, namespace: str) -> None:
    """A policy gets its condition by itself."""
    name = f"reconciler-{namespace}"

    async def judged() -> bool:
        found = await admin.get(resources.POLICIES, name, into=dict)
        return bool(found.get("status", {}).get("conditions"))

    async with running(connection.load(account)):
        policy = manifests.own("PlacementPolicy", name, spec={"strategy": "spread"})
        await admin.create(resources.POLICIES, policy)
        await waiting.eventually(judged, what="the condition", seconds=20)
    await admin.delete(resources.POLICIES, name)


@pytest.mark.skipif(not socket.has_ipv6, reason="only IPv6 has another way to write this machine's address")
async def test_a_server_under_another_name(account: Path, device: DeviceOnServer) -> None:
    """A kubeconfig's tls-server-name holds for Kopf's requests as it does for ours."""
    link = connection.load(account)
    other = link.server.replace("127.0.0.1", "[::ffff:127.0.0.1]")  # The same; no certificate says it.
    async with running(dataclasses.replace(link, server=other, server_name="kubernetes")) as reconciler_:
        reconciler_.update([summary(device.name)])

        await device.until_free(4)


# ---------------------------------------------------------------- when Kopf ends


async def raising(error: BaseException | None) -> None:
    """End like this."""
    if error is not None:
        raise error


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(RuntimeError("the API said 401"), id="an error"),
        pytest.param(asyncio.CancelledError(), id="cancelled from within"),
        pytest.param(None, id="by itself"),
    ],
)
async def test_kopf_is_started_again(
    account: Path, device: DeviceOnServer, end: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However Kopf ends, it is started again, and in the end all is shown."""
    real, starts = kopf.spawn_tasks, 0

    async def spawn_tasks(**options: Any) -> Any:
        nonlocal starts
        starts += 1
        return [asyncio.create_task(raising(end))] if starts <= 2 else await real(**options)

    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))
    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)

    async with running(connection.load(account)) as reconciler_:
        reconciler_.update([summary(device.name)])
        await device.until_free(4)

    assert starts == 3


@pytest.mark.parametrize(
    ("first_groups", "first_kinds", "missing"),
    [
        pytest.param(groups(), None, "devices and gpupods and placementpolicies", id="none"),
        pytest.param(
            groups(names.GROUP), kinds(names.DEVICES, names.GPU_PODS), "placementpolicies", id="two kinds"
        ),
    ],
)
async def test_a_server_that_does_not_name_our_kinds_yet(
    server: stub.Stub,
    first_groups: Thing,
    first_kinds: Thing | None,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kopf asks once which kinds there are: one that found less than all is not the last."""
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))
    serve(server, {}, first_groups=first_groups, first_kinds=first_kinds)
    server.on("PATCH", STATUS, stub.thing({}))

    async with running(server.link) as reconciler_:
        reconciler_.update([summary()])
        await eventually.holds(
            lambda: "PATCH" in {request.method for request in server.requests}, "the status"
        )

    assert [message for message in caplog.messages if "Kopf ended" in message] == [
        f"Kopf ended: the API server did not name {missing} of {names.GROUP} yet"
    ]


async def test_a_flush_that_fails_is_not_the_last(
    account: Path, device: DeviceOnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in one flush is said, and the next one writes."""
    real, faults = kind_statuses.KindStatuses.flush, [ValueError("a fault of ours")] * 2

    async def flush(statuses: Any) -> None:
        if faults:
            raise faults.pop()
        await real(statuses)

    monkeypatch.setattr(kind_statuses.KindStatuses, "flush", flush)

    async with running(connection.load(account)) as reconciler_:
        reconciler_.update([summary(device.name)])
        await device.until_free(4)


async def test_it_ends_when_told_to(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends soon, whether Kopf runs or is waited for, and news after that harm nobody."""
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (3600.0,))
    link = connection.load(account)

    for server in (link.server, "https://127.0.0.1:9"):
        async with running(dataclasses.replace(link, server=server)) as reconciler_:
            pass
        reconciler_.update([summary("nobody")])

    assert not {thread.name for thread in threading.enumerate()} & {"reconciler", "kopf"}
