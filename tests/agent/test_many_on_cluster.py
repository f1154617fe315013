"""Sixty agents in one process: once all is said, the API server hears of them only by their Leases."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import datetime as dt
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent import programs
from berth_agent import node_labels
from berth_crds import logs, names
from berth_crds.client import api, errors, resources
from testbed import audit, waiting
from testbed import cluster as clusters

COUNT = 60
START_SECONDS = 240.0
INTERVAL = 2.0
WATCHED_SECONDS = 15.0
REFUSED = 300
UNCLEAR = 500
USER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
WORDS = {"nodes": "labelled"}  # In the log, of a write that failed.
NODES = [f"many-{number}" for number in range(COUNT)]


@pytest.fixture
async def nodes(admin: api.Api) -> AsyncIterator[list[str]]:
    """Lend sixty Nodes."""
    await asyncio.gather(*(admin.create(resources.NODES, {"metadata": {"name": name}}) for name in NODES))
    yield NODES
    # From the leaves up: the garbage collector would be busy for as long as other tests wait for it.
    await asyncio.gather(*(_gone(admin, resources.DEVICES, name) for name in NODES))
    await asyncio.gather(*(_gone(admin, resources.LEASES, name, names.NODES_NAMESPACE) for name in NODES))
    await asyncio.gather(*(_gone(admin, resources.NODES, name) for name in NODES))


async def _gone(admin: api.Api, resource: resources.Resource, name: str, namespace: str = "") -> None:
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resource, name, namespace=namespace)


def command(berth: clusters.Cluster, nodes: list[str]) -> list[str]:
    """Write the command of one process that speaks for all of them, with a token for each."""
    account = berth.kubeconfig_by_node(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, nodes)
    simulated = [word for name in nodes for word in ("--simulated-node", f"{name}=8xA100-SXM4-80GB")]
    return [
        *(sys.executable, "-m", "berth_agent", "--kubeconfig", str(account), "--context-by-node"),
        *("--interval", str(INTERVAL), "--sample-deadline", "1", *simulated),
    ]


def kind(event: audit.AuditEvent) -> str:
    """Return what was written."""
    return "/".join(filter(None, (event.resource, event.subresource)))


async def shown(admin: api.Api) -> set[tuple[str, str]]:
    """Return what is there of all that agents write for the first time."""

    async def listed(resource: resources.Resource, namespace: str = "") -> list[dict[str, Any]]:
        body = await admin.send("GET", resource.path(namespace=namespace))
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return items

    devices = await listed(resources.DEVICES)
    found = {
        "devices": devices,
        "devices/status": [one for one in devices if one.get("status", {}).get("conditions")],
        "nodes": [one for one in await listed(resources.NODES) if labelled(one)],
        "leases": await listed(resources.LEASES, names.NODES_NAMESPACE),
    }
    return {(what, one["metadata"]["name"]) for what, things in found.items() for one in things}


def labelled(node: dict[str, Any]) -> bool:
    """Return whether an agent has labelled a Node."""
    return any(label.startswith(node_labels.PREFIXES) for label in node["metadata"].get("labels", {}))


@pytest.mark.slow
async def test_agents_that_have_nothing_to_say_write_only_leases(
    berth: clusters.Cluster, admin: api.Api, nodes: list[str], tmp_path: Path
) -> None:
    """Devices and labels are written once for each node; afterwards only Leases are renewed, all of them."""

    def tried(since: dt.datetime | None = None) -> list[audit.AuditEvent]:
        mine = [one for one in audit.writes_by(berth.audit(), USER) if one.name in NODES]
        return [one for one in mine if since is None or one.received >= since]

    def written(since: dt.datetime | None = None) -> list[audit.AuditEvent]:
        # A server that is made to wait may be asked once more; what it refused it did not write.
        return [one for one in tried(since) if one.code < REFUSED]

    once = {(one, name) for one in ("devices", "devices/status", "nodes") for name in NODES}
    async with programs.running(command(berth, nodes), tmp_path / "log") as agents:

        async def settled() -> bool:
            with contextlib.suppress(errors.ClientError):  # The server has sixty agents to serve.
                return await shown(admin) >= once | {("leases", name) for name in NODES}
            return False

        await waiting.eventually(settled, what="all that is written at first", seconds=START_SECONDS)
        await asyncio.sleep(3 * INTERVAL)
        at_first = written()
        since = dt.datetime.now(dt.UTC)
        await asyncio.sleep(WATCHED_SECONDS)
        later = written(since)
        await programs.ends(agents)

    said = (tmp_path / "log").read_text()
    told = collections.Counter((kind(one), one.name) for one in at_first if kind(one) != "leases")
    # What the server carried out though it said that it ran out of time is told by nothing else.
    unclear = {(kind(one), one.name) for one in tried() if one.code >= UNCLEAR}
    assert told.keys() <= once <= told.keys() | unclear
    # An answer that does not come in time is no answer: then, and only then, it is said once more. The log
    # has so many lines of failed attempts; whether it leaves more out is for their number to say.
    full = said.count(" (attempt ") >= logs.MOST_OF_A_KIND
    unsaid = [
        (what, name, count)
        for (what, name), count in told.items()
        if count > 1
        and not full
        and f"node {name} is not {WORDS.get(what, 'published')} (attempt" not in said
    ]
    assert (unsaid, {kind(one) for one in later}) == ([], {"leases"})
    assert {one.name for one in later} == set(NODES)
    assert "Traceback" not in said
