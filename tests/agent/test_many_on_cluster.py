"""Twenty agents in one process: once all is said, the API server hears of them only by their Leases.

So it is as well while the load of all cards changes all the time: it travels with the Leases, and makes
neither them more nor any other write.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import datetime as dt
import itertools
import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent import programs
from berth_agent import node_labels
from berth_crds import logs, names, tasks
from berth_crds.client import api, errors, resources
from testbed import audit, waiting
from testbed import cluster as clusters

COUNT = 20
CARDS = 8
START_SECONDS = 240.0
INTERVAL = 5.0
SHORTEST_INTERVAL = 0.9 * INTERVAL  # Agents spread over this much.
WATCHED_SECONDS = 15.0
LOAD_SECONDS = 0.5  # From one change of all loads to the next.
# Of each agent while it is watched: it began at least so long after the one before.
MOST_RENEWALS = int(WATCHED_SECONDS / SHORTEST_INTERVAL) + 1
REFUSED = 300
UNCLEAR = 500
USER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
WORDS = {"nodes": "labelled"}  # In the log, of a write that failed.
NODES = [f"many-{number}" for number in range(COUNT)]


@pytest.fixture
async def nodes(admin: api.Api) -> AsyncIterator[list[str]]:
    """Lend a Node for each agent."""
    await asyncio.gather(*(admin.create(resources.NODES, {"metadata": {"name": name}}) for name in NODES))
    yield NODES
    # From the leaves up: the garbage collector would be busy for as long as other tests wait for it.
    await asyncio.gather(*(_gone(admin, resources.DEVICES, name) for name in NODES))
    await asyncio.gather(*(_gone(admin, resources.LEASES, name, names.NODES_NAMESPACE) for name in NODES))
    await asyncio.gather(*(_gone(admin, resources.NODES, name) for name in NODES))


async def _gone(admin: api.Api, resource: resources.Resource, name: str, namespace: str = "") -> None:
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resource, name, namespace=namespace)


def command(berth: clusters.Cluster, nodes: list[str], faults: Path) -> list[str]:
    """Write the command of one process that speaks for all of them, with a token for each."""
    account = berth.kubeconfig_by_node(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, nodes)
    simulated = [word for name in nodes for word in ("--simulated-node", f"{name}={CARDS}xA100-SXM4-80GB")]
    return [
        *(sys.executable, "-m", "berth_agent", "--kubeconfig", str(account), "--context-by-node"),
        *("--interval", f"{INTERVAL}", "--sample-deadline", "4", "--faults", f"{faults}", *simulated),
    ]


def write_loads(faults: Path, percent: int) -> None:
    """Have the cards of all nodes be used so much."""
    card = {"health": "Healthy", "load": {"utilization": percent}}
    half = faults.with_suffix(".half")
    half.write_text(json.dumps({name: {f"{minor}": card for minor in range(CARDS)} for name in NODES}))
    half.rename(faults)


async def change_loads(faults: Path) -> None:
    """Change the loads of all cards, again and again."""
    for step in itertools.count():
        write_loads(faults, 95 - 45 * (step % 2))  # Far enough apart to be rounded to different figures.
        await asyncio.sleep(LOAD_SECONDS)


async def loaded(admin: api.Api) -> set[str]:
    """Return the nodes whose Leases carry a load."""
    body = await admin.send("GET", resources.LEASES.path(namespace=names.NODES_NAMESPACE))
    return {
        one["metadata"]["name"]
        for one in json.loads(body)["items"]
        if "95" in one["metadata"].get("annotations", {}).get(names.LOAD, "")
        or "50" in one["metadata"].get("annotations", {}).get(names.LOAD, "")
    }


async def watched() -> dt.datetime:
    """Wait for as long as agents are watched; return since when."""
    since = dt.datetime.now(dt.UTC)
    await asyncio.sleep(WATCHED_SECONDS)
    return since


def _end(since: dt.datetime) -> dt.datetime:
    """Return until when agents are watched: a busy machine may ask later."""
    return since + dt.timedelta(seconds=WATCHED_SECONDS)


def check_renewals(events: list[audit.AuditEvent]) -> None:
    """Check that all agents have renewed their Leases, none too often, and wrote nothing else."""
    assert {kind(one) for one in events} == {"leases"}
    renewals = collections.Counter(one.name for one in events)
    assert renewals.keys() == set(NODES)
    assert max(renewals.values()) <= MOST_RENEWALS


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


async def shows(admin: api.Api, wanted: set[tuple[str, str]]) -> bool:
    """Whether all of this is there."""
    with contextlib.suppress(errors.ClientError):  # The server has many agents to serve.
        return await shown(admin) >= wanted
    return False


def labelled(node: dict[str, Any]) -> bool:
    """Return whether an agent has labelled a Node."""
    return any(label.startswith(node_labels.PREFIXES) for label in node["metadata"].get("labels", {}))


@pytest.mark.slow
async def test_agents_that_have_nothing_to_say_write_only_leases(
    berth: clusters.Cluster, admin: api.Api, nodes: list[str], tmp_path: Path
) -> None:
    """Devices and labels are written once for each node; afterwards only Leases are renewed, all of them.

    Under a load that changes all the time there are no more of them than without.
    """

    def tried(since: dt.datetime | None = None) -> list[audit.AuditEvent]:
        mine = [one for one in audit.writes_by(berth.audit(), USER) if one.name in NODES]
        return mine if since is None else [one for one in mine if since <= one.received < _end(since)]

    def written(since: dt.datetime | None = None) -> list[audit.AuditEvent]:
        # A server that is made to wait may be asked once more; what it refused it did not write.
        return [one for one in tried(since) if one.code < REFUSED]

    once = {(one, name) for one in ("devices", "devices/status", "nodes") for name in NODES}
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    async with programs.running(command(berth, nodes, faults), tmp_path / "log") as agents:
        settled = partial(shows, admin, once | {("leases", name) for name in NODES})
        await waiting.eventually(settled, what="all that is written at first", seconds=START_SECONDS)
        await asyncio.sleep(2 * INTERVAL)
        at_first = written()
        later = written(await watched())
        async with tasks.running(change_loads(faults)):
            await asyncio.sleep(INTERVAL)
            under_load = written(await watched())
            assert await loaded(admin) == set(NODES)
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
    assert unsaid == []
    check_renewals(later)
    check_renewals(under_load)
    assert "Traceback" not in said
