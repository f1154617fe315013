"""The man in the middle tells calls apart, and does to each what it is told, no more."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds.client import api, connection, errors, resources
from testbed import calls, interceptor, waiting
from testbed import cluster as clusters
from testbed.interceptor import Deed, Fault


@pytest.mark.parametrize(
    ("method", "path", "query", "kind"),
    [
        ("GET", "/api/v1/pods", {}, "list pods"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch pods"),
        ("GET", "/api/v1/namespaces/ns/pods/a", {}, "get pods"),
        ("GET", "/api/v1/namespaces/ns", {}, "get namespaces"),
        ("POST", "/api/v1/namespaces/ns/pods/a/binding", {}, "create pods/binding"),
        ("PATCH", "/apis/berth.dev/v1alpha1/devices/n/status", {}, "patch devices/status"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y", {}, "update leases"),
        ("GET", "/apis/berth.dev/v1alpha1", {}, "discover kinds"),
        ("GET", "/apis", {}, "discover kinds"),
    ],
)
def test_calls_have_names(method: str, path: str, query: dict[str, str], kind: str) -> None:
    """A request is named by verb, resource and subresource, as access control does."""
    assert calls.of(method, path, query).kind == kind


class Bench:
    """A client, the man in the middle, and what he is told to do to the next call of a kind."""

    def __init__(self, wire: interceptor.Interceptor, session: api.Api, namespace: str) -> None:
        self.wire = wire
        self.session = session
        self.namespace = namespace
        self.faults: dict[str, Fault] = {}
        self.killed = 0

    def judge(self, call: calls.Call) -> Fault:
        """Deal each fault once."""
        return self.faults.pop(call.kind, interceptor.PASS)

    def kill(self) -> None:
        """Count instead of killing."""
        self.killed += 1

    async def make(self, name: str) -> None:
        """Create an Event, of all objects the one with the fewest rules."""
        thing = {
            "metadata": {"name": name, "namespace": self.namespace},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": self.namespace},
            "reason": "Testing",
        }
        await self.session.create(resources.EVENTS, thing, namespace=self.namespace)

    async def there(self) -> set[str]:
        """Name the Events that exist."""
        body = await self.session.send("GET", resources.EVENTS.path(namespace=self.namespace))
        return {one["metadata"]["name"] for one in json.loads(body)["items"]}


@pytest.fixture
async def bench(cluster: clusters.Cluster, namespace: str) -> AsyncIterator[Bench]:
    """Yield a bench on the real API server, with the administrator's rights under a token."""
    binding = f"""\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: all, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects: [{{kind: ServiceAccount, name: default, namespace: {namespace}}}]
"""
    await asyncio.to_thread(cluster.apply, binding)
    async with interceptor.Interceptor(cluster) as wire:
        path = await asyncio.to_thread(cluster.kubeconfig_for, namespace, "default", server=wire.server)
        async with api.Api(connection.load(path), agent="test") as session:
            lent = Bench(wire, session, namespace)
            wire.judge, wire.kill = lent.judge, lent.kill
            yield lent


async def test_forwards_and_takes_notes(bench: Bench) -> None:
    """Without a fault a call is what it would be without anybody between; the refusal's words are kept."""
    await bench.make("a")
    with pytest.raises(errors.Conflict):
        await bench.make("a")
    assert await bench.there() == {"a"}

    first, second, third = bench.wire.seen
    assert (first.status, second.status, third.status) == (201, 409, 200)
    assert "already exists" in second.text
    assert third.version > 0


@pytest.mark.parametrize(
    ("deed", "error", "done", "killed"),
    [
        (Deed.DROP, errors.Unreachable, False, 0),
        (Deed.KILL_BEFORE, errors.Unreachable, False, 1),
        (Deed.BUSY, errors.Throttled, False, 0),
        (Deed.REFUSE, errors.Forbidden, False, 0),
        (Deed.FAIL, errors.Unavailable, False, 0),
        (Deed.LOSE, errors.Unreachable, True, 0),
        (Deed.KILL_AFTER, errors.Unreachable, True, 1),
        (Deed.UNSURE, errors.Unavailable, True, 0),
        (Deed.TWICE, errors.Conflict, True, 0),
    ],
    ids=lambda value: value if isinstance(value, Deed) else "",
)
async def test_a_fault_hits_before_or_after_the_server(
    bench: Bench, deed: Deed, error: type[Exception], *, done: bool, killed: int
) -> None:
    """What the client hears and whether the server acted are two things, and each deed is its own pair."""
    bench.faults["create events"] = Fault(deed)

    with pytest.raises(error):
        await bench.make("a")

    assert await bench.there() == ({"a"} if done else set())
    assert bench.killed == killed


@pytest.mark.parametrize("deed", [Deed.KILL_AFTER, Deed.KILL_BETWEEN])
async def test_a_kill_comes_though_the_server_gives_no_answer(bench: Bench, deed: Deed) -> None:
    """Else its sender would live on for good, for nothing else is done to whoever is to be killed."""
    bench.faults["create events"] = Fault(deed, server="https://127.0.0.1:1")

    with pytest.raises(errors.Unreachable):
        await bench.make("a")

    assert bench.killed == 1


async def test_a_watch_whose_reader_is_gone_kills_once(bench: Bench) -> None:
    """The next kill would hit the process that took the reader's place, long after the plan was done."""
    bench.faults["watch events"] = Fault(Deed.KILL_BETWEEN)
    path = resources.EVENTS.path(namespace=bench.namespace)
    stream = bench.session.stream(path, params={"watch": "true"}, idle_seconds=10, head_seconds=10)
    async with stream:
        await waiting.eventually(lambda: bench.killed, what="the kill")

    async def ended() -> bool:
        await bench.make(f"e{len(bench.wire.seen)}")  # It shows only as the next event is passed on.
        return bench.wire.reset_watches() == 0

    await waiting.eventually(ended, what="the watch to end")

    assert bench.killed == 1


async def test_a_held_call_arrives_late(bench: Bench) -> None:
    """A held call reaches the server when the gate opens, even if its sender has given up."""
    gate = asyncio.Event()
    bench.faults["create events"] = Fault(Deed.HOLD, gate=gate)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bench.make("late"), 0.3)
    assert await bench.there() == set()

    gate.set()

    async def arrived() -> bool:
        return await bench.there() == {"late"}

    await waiting.eventually(arrived, what="the held call to arrive")


async def test_a_watch_flows_until_it_is_reset(bench: Bench) -> None:
    """Events come through as they happen; a reset ends the stream in the middle, and a new one works."""
    for name in ("one", "two"):
        stream = bench.session.stream(
            resources.EVENTS.path(namespace=bench.namespace),
            params={"watch": "true"},
            idle_seconds=10,
            head_seconds=10,
        )
        async with stream as content:
            await bench.make(name)
            line: dict[str, Any] = {}
            while line.get("object", {}).get("metadata", {}).get("name") != name:
                line = json.loads(await content.readline())
            # The first one may still be among them: its end shows with the next event it should carry.
            assert bench.wire.reset_watches() >= 1
            with pytest.raises(Exception, match=r"payload|reset"):  # noqa: PT012  It may say one thing more.
                while await content.readline():
                    pass


async def test_who_is_still_greeting_is_hung_up_on(cluster: clusters.Cluster) -> None:
    """A client that came in and has not said a word of TLS yet leaves nothing behind."""
    async with interceptor.Interceptor(cluster) as wire:
        port = int(wire.server.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.05)

    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await writer.wait_closed()
    gc.collect()  # A transport that nobody closed complains here, and that is an error in tests.


@pytest.mark.parametrize("turns", range(4))
async def test_who_comes_in_while_it_ends_is_hung_up_on(cluster: clusters.Cluster, turns: int) -> None:
    """A client that is being received at that moment leaves nothing behind either."""
    with socket.socket() as client:
        client.settimeout(5)
        async with interceptor.Interceptor(cluster) as wire:
            client.connect(("127.0.0.1", int(wire.server.rpartition(":")[2])))
            for _ in range(turns):
                await asyncio.sleep(0)

        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    gc.collect()
