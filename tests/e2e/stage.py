"""A stage for end-to-end tests: nodes with agents, operators that come and go, pods, and what became of them.

The programs run as processes under their own service accounts. What happens is read with
a session of the administrator, and what was written with the API server's audit log.
"""

import collections
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from berth_crds import allocation, names
from berth_crds.client import api, connection, errors, resources
from e2e import conditions, fleet
from e2e.conditions import condition, scheduled
from support import deep_json, kubelet, manifests
from support.nvml import build, machine
from testbed import audit, interceptor, processes, proxy, waiting

OPERATOR: Final = "system:serviceaccount:berth-system:berth-operator"
AGENT: Final = "system:serviceaccount:berth-system:berth-agent"

# Nobody restarts an operator that lost the lead, so terms are long, but for tests that kill a leader.
LONG: Final = ("--lease-duration", "30", "--renew-deadline", "20", "--retry-period", "0.3")
USUAL: Final = ("--lease-duration", "6", "--renew-deadline", "4")
BRISK: Final = ("--interval", "0.5", "--sample-deadline", "1", "--lease-duration", "3")
SOON: Final = 30.0
HARDWARE: Final = ""  # The shape of a node whose cards are not simulated.
LIST_SECONDS: Final = 90.0  # Until the server has listed something for us, however often we have to ask.

Pod = dict[str, Any]
Thing = dict[str, Any]
T = TypeVar("T")


class Stage:
    """A namespace, nodes with agents, and operators that come and go."""

    def __init__(self, base: fleet.Fleet, kubelets: kubelet.Kubelets, admin: api.Api) -> None:
        self.fleet = base
        self.cluster = base.cluster
        self.kubelets = kubelets
        self.admin = admin
        self.namespace = self.cluster.namespace("e2e")
        self._operators: list[processes.Program] = []
        self._agents: list[processes.Program] = []
        self._agent_env: Mapping[str, str] = {}
        self._nodes: list[str] = []

    def session(self, account: str, *, node: str = "") -> api.Api:
        """Make a session of one of Berth's accounts, perhaps with the token of a pod on a node."""
        cluster, where = self.cluster, (names.SYSTEM_NAMESPACE, account)
        path = cluster.kubeconfig_by_node(*where, [node]) if node else cluster.kubeconfig_for(*where)
        return api.Api(connection.load(path), agent="test-e2e")

    # ------------------------------------------------------------ who plays

    def agents_read(self, made: machine.Machine) -> None:
        """Have agents of the shape HARDWARE read the cards of a machine, by the mock of NVML."""
        library = str(build.library().parent)
        self._agent_env = {"LD_LIBRARY_PATH": library, machine.VARIABLE: str(made.state)}

    async def nodes(self, *flags: str, **shapes: str) -> processes.Program:
        """Add usual nodes, and one agent process that speaks for all of them."""
        await self.machines(*(kubelet.FakeNode(name) for name in shapes))
        return await self.agent(*flags, **shapes)

    async def ready_nodes(self, *flags: str, **shapes: str) -> processes.Program:
        """Add usual nodes, and wait until an operator has found them ready."""
        program = await self.nodes(*flags, **shapes)
        await self.until_ready(*shapes)
        return program

    async def machines(self, *nodes: kubelet.FakeNode) -> None:
        """Add nodes without agents."""
        await self.kubelets.add(*nodes)
        self._nodes += [node.name for node in nodes]

    async def agent(self, *flags: str, **shapes: str) -> processes.Program:
        """Start an agent for nodes, and wait for their Devices and Leases."""
        name = f"{self.namespace}-agent-{len(self._agents)}"
        program = self.fleet.agent(*shapes.items(), flags=(*BRISK, *flags), name=name, env=self._agent_env)
        self._agents.append(program)
        await self.until("the Devices", lambda: self._published(shapes))
        return program

    async def _published(self, nodes: dict[str, str]) -> bool:
        leases = await self._items(resources.LEASES, names.NODES_NAMESPACE)
        beating = {one["metadata"]["name"] for one in leases}
        return set(nodes) <= set(await self.devices()) & beating

    def operator(
        self, *flags: str, wire: proxy.Proxy | interceptor.Interceptor | None = None
    ) -> processes.Program:
        """Start an operator, perhaps behind a wire."""
        name = f"{self.namespace}-operator-{len(self._operators)}"
        if wire is not None:
            where = names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT
            flags = *flags, "--kubeconfig", str(self.cluster.kubeconfig_for(*where, server=wire.server))
        program = self.fleet.operator(*LONG, *flags, name=name)
        self._operators.append(program)
        return program

    async def deciding_operator(
        self, *flags: str, wire: proxy.Proxy | interceptor.Interceptor | None = None
    ) -> processes.Program:
        """Start an operator, and wait until it decides."""
        program = self.operator(*flags, wire=wire)
        await self.says(program, "deciding:", seconds=2 * SOON)
        return program

    async def says(self, program: processes.Program, word: str, *, seconds: float = SOON) -> None:
        """Wait for a word in a program's log."""
        await waiting.eventually(
            lambda: word in program.log.read_text(),
            what=f"{program.name} to say {word!r}",
            seconds=seconds,
            instead=lambda: processes.tail(program.log),
        )

    async def ended(self, program: processes.Program, *, seconds: float = SOON) -> int:
        """Wait for the end of a program, and give its exit status."""
        await waiting.eventually(lambda: not program.alive(), what=f"{program.name} to end", seconds=seconds)
        return program.process.wait()

    # ------------------------------------------------------------ pods

    async def create(self, *pods: Pod) -> None:
        """Create pods, one after the other."""
        for one in pods:
            await self.admin.create(resources.PODS, one, namespace=self.namespace)

    async def placed(self, *pods: Pod) -> dict[str, str]:
        """Create pods, wait until they have a node, and give the nodes of all."""
        await self.create(*pods)
        return await self.until_bound(*(one["metadata"]["name"] for one in pods))

    async def waiting_pod(self, pod: Pod, word: str = "") -> Thing:
        """Create a pod, and wait until it was told why it waits, with this word in the sentence."""
        await self.create(pod)
        return await self.until_told(pod["metadata"]["name"], word)

    async def delete(self, *names_: str) -> None:
        """Delete pods, as a user would: the kubelet ends them."""
        for name in names_:
            await self.admin.delete(resources.PODS, name, namespace=self.namespace)

    async def bind(self, name: str, node: str) -> None:
        """Bind a pod by hand."""
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.admin.create(resources.PODS, binding, namespace=self.namespace, sub="binding")

    async def patch(self, resource: resources.Resource, name: str, change: Thing, *, sub: str = "") -> None:
        """Change an object by hand."""
        namespace = self.namespace if resource.namespaced else ""
        path = resource.path(name, namespace=namespace, sub=sub)
        await self.admin.send("PATCH", path, body=msgspec.json.encode(change), content=api.MERGE_PATCH)

    async def end(self, name: str, phase: str) -> None:
        """Let a running pod come to an end of its own; before it runs, the kubelet would overrule us."""
        await self.until_pod(name, "run", lambda pod: pod["status"].get("phase") == "Running")
        await self.patch(resources.PODS, name, {"status": {"phase": phase}}, sub="status")

    # ------------------------------------------------------------ what is there

    async def pods(self) -> dict[str, Pod]:
        """Read all pods of the namespace."""
        return {one["metadata"]["name"]: one for one in await self._items(resources.PODS, self.namespace)}

    async def devices(self) -> dict[str, Thing]:
        """Read all Devices."""
        return {one["metadata"]["name"]: one for one in await self._items(resources.DEVICES)}

    async def events(self, name: str) -> list[Thing]:
        """Read the events about a pod."""
        found = await self._items(resources.EVENTS, self.namespace)
        return [one for one in found if one["involvedObject"]["name"] == name]

    async def bound(self) -> dict[str, str]:
        """Return the names of the pods that have a node, and the node."""
        nodes = {name: one["spec"].get("nodeName", "") for name, one in (await self.pods()).items()}
        return {name: node for name, node in nodes.items() if node}

    async def leader(self) -> Thing:
        """Read the leader's Lease."""
        where = names.SYSTEM_NAMESPACE
        found: Thing = await self.admin.get(resources.LEASES, names.LEADER_LEASE, into=dict, namespace=where)
        return dict(found["spec"])

    async def _items(self, resource: resources.Resource, namespace: str = "") -> list[Thing]:
        async def answered() -> bytes | None:
            # It is our own question, and nothing is promised of its answer: a server that has just been
            # started asks for patience, and one on a busy machine takes longer than a session waits.
            with contextlib.suppress(errors.Throttled, errors.Unavailable, errors.Unreachable):
                return await self.admin.send("GET", resource.path(namespace=namespace))
            return None

        body = await waiting.eventually(answered, what=f"the server to list {resource}", seconds=LIST_SECONDS)
        found: list[Thing] = deep_json.loads(body)["items"]
        return found

    async def may(self, user: str, attributes: Mapping[str, str]) -> bool:
        """Ask the server whether an account of Berth's may do something."""
        groups = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{fleet.SYSTEM}")
        spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
        path, body = resources.ACCESS_REVIEWS.path(), msgspec.json.encode({"spec": spec})
        answer = json.loads(await self.admin.send("POST", path, body=body))
        return bool(answer["status"]["allowed"])

    # ------------------------------------------------------------ waiting

    async def until(
        self,
        what: str,
        condition: Callable[[], Awaitable[T | None]],
        *,
        seconds: float = SOON,
        instead: Callable[[], object] | None = None,
    ) -> T:
        """Wait for a condition that asks the API server; in vain, tell what pods and programs said last."""
        try:
            return await waiting.eventually(condition, what=what, seconds=seconds, instead=instead)
        except waiting.TimedOut as error:
            programs = {one.name: one for one in (*self._operators, *self.fleet.programs)}.values()
            logs = [f"{one.name} said:\n{processes.tail(one.log)}" for one in programs]
            said = conditions.not_ready((await self.pods()).values())
            raise waiting.TimedOut("\n\n".join([str(error), *said, *logs])) from None

    async def until_pod(self, name: str, what: str, holds: Callable[[Pod], object]) -> Pod:
        """Wait until something is true of a pod, and give the pod."""

        async def found() -> Pod | None:
            pod = (await self.pods())[name]
            return pod if holds(pod) else None

        return await self.until(f"{name} to {what}", found)

    async def until_device(self, name: str, what: str, holds: Callable[[Thing], object]) -> Thing:
        """Wait until something is true of a Device, and give the Device."""

        async def found() -> Thing | None:
            device = (await self.devices())[name]
            return device if holds(device) else None

        return await self.until(f"the Device {name} to {what}", found)

    async def until_gone(self, *names_: str) -> None:
        """Wait until these pods are gone."""

        async def gone() -> bool:
            return set(names_).isdisjoint(await self.pods())

        await self.until(f"{', '.join(names_)} to be gone", gone)

    async def until_bound(self, *names_: str, seconds: float = SOON) -> dict[str, str]:
        """Wait until these pods have a node, and give the nodes of all."""

        async def all_bound() -> dict[str, str] | None:
            found = await self.bound()
            return found if set(names_) <= set(found) else None

        return await self.until(f"{', '.join(names_)} to be bound", all_bound, seconds=seconds)

    async def until_told(self, name: str, word: str = "") -> Thing:
        """Wait until a pod was told why it waits, with this word in the sentence; in vain, say why not."""
        pod: Pod = {}

        async def told() -> Thing | None:
            pod.update((await self.pods())[name])
            said = scheduled(pod)
            return said if said.get("status") == "False" and word in said["message"] else None

        return await self.until(
            f"{name} to be told {word!r}",
            told,
            instead=lambda: f"a pod on node {pod['spec'].get('nodeName')!r} that is told {scheduled(pod)}",
        )

    async def until_ready(self, *nodes: str, truth: str = "True") -> None:
        """Wait until Devices are Ready, or not."""

        async def ready() -> bool:
            devices = await self.devices()
            return all(condition(devices.get(node, {}), "Ready").get("status") == truth for node in nodes)

        await self.until(f"{', '.join(nodes)} to be Ready: {truth}", ready)

    # ------------------------------------------------------------ what was written

    async def binds(self, count: int) -> list[audit.AuditEvent]:
        """Wait for so many binds in the audit log, and give all that were carried out.

        Where an operator is killed amid a bind, the server may carry it out and yet note
        that it does not know: that note counts where no other bind of the pod was accepted.
        """

        async def there() -> list[audit.AuditEvent] | None:
            binds = [one for one in self.writes() if one.subresource == "binding"]
            accepted = audit.accepted(binds)
            known = {one.name for one in accepted}
            unsure = {one.name: one for one in audit.unsure(binds) if one.name not in known}
            found = [*accepted, *unsure.values()]
            return found if len(found) >= count else None

        return await self.until(f"{count} binds in the audit log", there)

    def writes(self) -> list[audit.AuditEvent]:
        """Return the operators' writes whose object is a pod of this test."""
        found = audit.writes_to(self.cluster.audit(), "pods", namespace=self.namespace)
        return audit.writes_by(found, OPERATOR)

    async def assert_sound(self, *expected: str) -> None:
        """Check what must hold of bound pods: one bind each, no card twice, all cards on their node."""
        binds = collections.Counter(one.name for one in await self.binds(len(expected)))
        assert binds == dict.fromkeys(expected, 1)
        devices, held = await self.devices(), list[str]()
        for name, one in (await self.pods()).items():
            if not one["spec"].get("nodeName") or one["status"].get("phase") in {"Succeeded", "Failed"}:
                continue
            cards = cards_of(one)
            assert set(cards) <= uuids(devices[one["spec"]["nodeName"]]), f"I2: {name}"
            held += cards
        assert len(held) == len(set(held)), "I1: a card was given twice"

    # ------------------------------------------------------------ the end

    async def close(self) -> None:
        """Remove everything again."""
        for program in self._operators:
            with contextlib.suppress(ProcessLookupError):
                program.process.send_signal(signal.SIGCONT)
        for program in (*self._operators, *self._agents):
            program.kill()
        if self._operators:
            await self.vacate()
        await self.clear_pods()
        for name in self._nodes:
            with contextlib.suppress(errors.NotFound):
                await self.admin.delete(resources.DEVICES, name)
            with contextlib.suppress(errors.NotFound):
                await self.admin.delete(resources.LEASES, name, namespace=names.NODES_NAMESPACE)

    async def clear_pods(self) -> None:
        """Delete all pods of the namespace; the server deletes them one by one, and may need a while."""
        path = resources.PODS.path(namespace=self.namespace)

        async def gone() -> bool:
            with contextlib.suppress(errors.Unreachable):
                await self.admin.send("DELETE", path, params={"gracePeriodSeconds": "0"})
            return not await self.pods()

        await self.until("the pods to be gone", gone, seconds=60)

    async def vacate(self) -> None:
        """Release the leadership of those who were killed, so that the next test need not wait it out."""
        where = names.SYSTEM_NAMESPACE
        path = resources.LEASES.path(names.LEADER_LEASE, namespace=where)
        vacant = b'{"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}'
        with contextlib.suppress(errors.NotFound):
            await self.admin.send("PATCH", path, body=vacant, content=api.MERGE_PATCH)


@contextlib.asynccontextmanager
async def lent(base: fleet.Fleet) -> AsyncIterator[Stage]:
    """Yield a stage on a cluster, and take everything away again."""
    link = connection.load(base.cluster.admin_kubeconfig)
    async with api.Api(link, agent="test-e2e") as admin, kubelet.Kubelets(base.cluster) as kubelets:
        stage = Stage(base, kubelets, admin)
        try:
            yield stage
        finally:
            await stage.close()


# ---------------------------------------------------------------- pods, and what they say


def pod(name: str, cards: int = 1, *, limits: Mapping[str, object] = {}, **more: Any) -> Pod:
    """Return a pod of so many whole cards, with further limits beside them."""
    return manifests.pod(name, ({names.NVIDIA_GPU: str(cards)} if cards else {}) | dict(limits), **more)


def cards_of(one: Pod) -> list[str]:
    """Return the names of the cards that a pod's allocation gives it; none where it has no allocation."""
    text = one["metadata"].get("annotations", {}).get(names.ALLOCATION)
    if text is None:
        return []
    record = allocation.decode(text)
    assert isinstance(record, allocation.Allocation), record
    assert record.node == one["spec"]["nodeName"], "I2: the allocation is of the pod's own node"
    return [entry.share.uuid for entry in record.entries()]


def uuids(device: Thing) -> set[str]:
    """Return the names of the cards of a Device."""
    return {card["uuid"] for card in device["spec"]["devices"]}
