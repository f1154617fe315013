"""Whoever gets hold of one node's agent has one node: what its token may write, and what it may not."""

import contextlib
import dataclasses
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, resources
from e2e import agent_attempts, attempts, fleet
from e2e.agent_attempts import D, G, L, N
from e2e.attempts import APPLY, MERGE, Attempt, Ground
from e2e.stage import Stage
from testbed import kubeconfig

pytestmark = pytest.mark.usefixtures("almighty")


@pytest.fixture(scope="module")
def almighty(base: fleet.Fleet) -> Iterator[None]:
    """Grant the agents' account every right, so that only the policies stand in its way."""
    account = f"{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
    binding = "clusterrolebinding", "almighty-agents"
    base.cluster.kubectl("create", *binding, "--clusterrole=cluster-admin", f"--serviceaccount={account}")
    yield
    base.cluster.kubectl("delete", *binding)


@pytest.fixture
async def ground(stage: Stage) -> AsyncIterator[Ground]:
    """Yield two nodes, of which the second is somebody else's."""
    word = secrets.token_hex(3)
    mine, other = f"mine-{word}", f"other-{word}"
    for name in (mine, other):
        meta = {"name": name, "labels": {"zone": "a", "berth.dev/gpu.count": "1"}, "annotations": {"k": "v"}}
        await stage.admin.create(resources.NODES, {"metadata": meta})
    uid = json.loads(await stage.admin.send("GET", N.path(mine)))["metadata"]["uid"]
    async with stage.session(names.AGENT_ACCOUNT, node=mine) as agent:
        spaces = {resources.LEASES: names.NODES_NAMESPACE}
        beside = {"beside": f"{agent_attempts.UID}.{mine}", "beside-other": f"{agent_attempts.UID}.{other}"}
        beside |= {"beside-longer": f"{agent_attempts.UID}.x.{mine}", "mine-uid": uid}
        lent = Ground(stage, agent, {"mine": mine, "other": other} | beside, spaces)
        for which in ("mine", "other"):
            await furnish(lent, which)
        yield lent
    for which in ("mine", "other"):
        for resource in (resources.DEVICES, resources.LEASES, resources.NODES):
            with contextlib.suppress(errors.NotFound):
                await stage.admin.send("DELETE", lent.path(resource, which))


async def furnish(ground: Ground, which: str) -> None:
    """Make what Berth has of a node, with what people and the operator have written."""
    made = attempts.device(which, cordon=[f"GPU-<{which}>"])
    made["metadata"] |= {"labels": {"team": "a"}, "annotations": {names.REPAIRED: "0", "note": "mine"}}
    await ground.admin.create(resources.DEVICES, ground.filled(made))
    status = {"status": {"conditions": [attempts.READY], "summary": attempts.SUMMARY}}
    where = ground.path(resources.DEVICES, which, "status")
    await ground.admin.send("PATCH", where, body=msgspec.json.encode(status), content=MERGE)
    renewed = agent_attempts.lease(which) | {"spec": {"holderIdentity": "agent"}}
    await ground.admin.apply(resources.LEASES, ground.filled(renewed), manager=names.AGENT_MANAGER)
    await ground.admin.create(
        resources.GPU_PODS, ground.filled(attempts.gpupod(which)), namespace=ground.stage.namespace
    )


async def test_an_agent_may_write(ground: Ground, subtests: pytest.Subtests) -> None:
    """What the work of an agent takes is not in its way."""
    await attempts.would_work(ground, agent_attempts.ALLOWED, subtests)


async def test_an_agent_may_not_write(ground: Ground, subtests: pytest.Subtests) -> None:
    """All else is refused, in a sentence that says what is whose, and changes nothing."""
    await attempts.are_refused(ground, agent_attempts.REFUSED, subtests)


async def test_a_token_without_a_node_may_write_nothing(ground: Ground, subtests: pytest.Subtests) -> None:
    """The account alone is nobody: the sentence says how to be somebody."""
    refused = {
        title: dataclasses.replace(
            attempt, words="names no node: please use the token of the agent's own pod"
        )
        for title, attempt in agent_attempts.ALLOWED.items()
    }

    async with ground.stage.session(names.AGENT_ACCOUNT) as session:
        await attempts.are_refused(ground.by(session), refused, subtests)


@pytest.mark.parametrize(
    ("resource", "thing"),
    [
        pytest.param(D, attempts.device("mine"), id="Device"),
        pytest.param(L, agent_attempts.lease("mine"), id="Lease"),
    ],
)
async def test_an_agent_may_create(ground: Ground, resource: resources.Resource, thing: object) -> None:
    """What is its own it makes by an apply, with the owner that it belongs to."""
    await ground.admin.send("DELETE", ground.path(resource, "mine"))

    await Attempt(resource, "mine", thing, APPLY).make(ground)

    assert await ground.read(resource, "mine")


@pytest.mark.parametrize("resource", [pytest.param(D, id="Device"), pytest.param(L, id="Lease")])
async def test_what_goes_with_its_node_goes_on_doing_so(ground: Ground, resource: resources.Resource) -> None:
    """Neither without an owner nor with another uid than the Node's does an agent leave what is owned."""
    await Attempt(resource, "mine", attempts.owned(agent_attempts.RIGHT)).make(ground.by(ground.admin))

    for change, words in (
        (attempts.owned(), agent_attempts.ONCE),
        ({"metadata": {"ownerReferences": None}}, agent_attempts.ONCE),
        (attempts.owned(agent_attempts.NODE_OWNER), agent_attempts.UNKNOWN),
    ):
        await attempts.is_refused(ground, Attempt(resource, "mine", change, words=words))


async def test_a_node_made_again_owns_what_its_running_agent_makes(ground: Ground, base: fleet.Fleet) -> None:
    """The token of a pod that outlives its Node has the former uid, and new objects name the Node's own."""
    mine = ground.names["mine"]
    container = {"name": "agent", "image": "x"}
    spec = {"serviceAccountName": names.AGENT_ACCOUNT, "nodeName": mine, "containers": [container]}
    made = {"metadata": {"name": mine}, "spec": spec}
    await ground.admin.create(resources.PODS, made, namespace=names.SYSTEM_NAMESPACE)
    token = base.cluster.kubectl(
        *("-n", names.SYSTEM_NAMESPACE, "create", "token", names.AGENT_ACCOUNT),
        *("--bound-object-kind=Pod", f"--bound-object-name={mine}"),
    )
    for resource in (D, L, N):
        await ground.admin.send("DELETE", ground.path(resource, "mine"))
    await ground.admin.create(N, {"metadata": {"name": mine}})
    uid = json.loads(await ground.admin.send("GET", N.path(mine)))["metadata"]["uid"]

    path, user = base.cluster.directory / f"{mine}.kubeconfig", kubeconfig.token(token.strip())
    link = connection.load(kubeconfig.write(path, base.cluster.endpoint, {"agent": user}))
    async with api.Api(link, agent="test-e2e") as agent:
        heir = dataclasses.replace(ground.by(agent), names={**ground.names, "mine-uid": uid})
        for resource, thing in ((D, attempts.device("mine")), (L, agent_attempts.lease("mine"))):
            thing["metadata"] |= {"ownerReferences": [agent_attempts.RIGHT]}
            await attempts.works(heir, Attempt(resource, "mine", thing, APPLY, manager=names.AGENT_MANAGER))
    await ground.admin.delete(resources.PODS, mine, namespace=names.SYSTEM_NAMESPACE)


async def test_an_agent_may_create_a_record_that_goes_with_its_pod(ground: Ground) -> None:
    """It is the Pod's; one of a pod that does not exist is taken away again, and keeps nobody's name."""
    await ground.admin.send("DELETE", ground.path(G, "mine"))
    body = {"metadata": {"name": ground.names["mine"]}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    await ground.admin.create(resources.PODS, body, namespace=ground.stage.namespace)
    pod = (await ground.stage.pods())[ground.names["mine"]]
    uid = pod["metadata"]["uid"]

    await Attempt(G, "mine", attempts.gpupod("mine", uid=uid, owner=uid), APPLY).make(ground)
    with pytest.raises(errors.Forbidden, match="owned by its Pod"):
        await Attempt(G, "mine", attempts.owned()).make(ground)
    await Attempt(G, "fresh", attempts.gpupod("fresh", "mine", owner="u"), verb="POST").make(ground)

    async def gone() -> bool:
        return await ground.read(G, "fresh") is None

    await ground.stage.until("the false record to go", gone, seconds=30)
    assert await ground.read(G, "mine")


NOT_OF_AN_AGENT: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a cordon": ({"spec": {"cordon": ["GPU-<mine>"]}}, agent_attempts.CORDON),
    "a person's word": ({"metadata": {"annotations": {names.REPAIRED: "all"}}}, agent_attempts.NOTES),
    "a label": ({"metadata": {"labels": {"team": "a"}}}, agent_attempts.LABELS),
    "a finalizer": ({"metadata": {"finalizers": ["x.io/f"]}}, agent_attempts.LABELS),
}


async def test_a_new_device_brings_nothing_along(ground: Ground, subtests: pytest.Subtests) -> None:
    """What is not the agent's is not its either when it makes the Device."""
    await ground.admin.send("DELETE", ground.path(D, "mine"))

    for title, (change, words) in NOT_OF_AN_AGENT.items():
        thing = attempts.device("mine")
        more = {part: thing[part] | values for part, values in change.items()}
        with subtests.test(title):
            await attempts.is_refused(ground, Attempt(D, "mine", thing | more, APPLY, words=words))


async def test_a_place_is_left_for_the_condition_of_the_operator(ground: Ground) -> None:
    """Where others take all places, the API server refuses all that the operator writes."""
    await ground.admin.send("DELETE", ground.path(D, "mine"))
    await Attempt(D, "mine", attempts.device("mine"), APPLY).make(ground)
    kinds = [attempts.NVML | {"type": f"T{at}"} for at in range(16)]
    full, rest = ({"status": {"conditions": some}} for some in (kinds, kinds[1:]))

    with pytest.raises(errors.Forbidden, match="15 conditions of its Device at most"):
        await Attempt(D, "mine", full, sub="status").make(ground)
    await Attempt(D, "mine", rest, sub="status").make(ground)
    status = {"status": {"conditions": [attempts.READY, *rest["status"]["conditions"]]}}
    where = ground.path(D, "mine", "status")
    await ground.admin.send("PATCH", where, body=msgspec.json.encode(status), content=MERGE)


async def test_a_word_of_people_is_not_put_into_their_mouths(ground: Ground) -> None:
    """An agent may spend `berth.dev/repaired` in parts, and never write it where nobody did."""
    await Attempt(D, "mine", {"metadata": {"annotations": {names.REPAIRED: "GPU-x"}}}).make(ground)
    await Attempt(D, "mine", {"metadata": {"annotations": {names.REPAIRED: None}}}).make(ground)

    with pytest.raises(errors.Forbidden, match=agent_attempts.NOTES):
        await Attempt(D, "mine", {"metadata": {"annotations": {names.REPAIRED: "all"}}}).make(ground)


async def test_a_load_is_left_out_again(ground: Ground) -> None:
    """An agent that measures nothing any more renews its Lease without, and leaves others' words there."""
    person = ground.by(ground.admin)
    await Attempt(L, "mine", {"metadata": {"annotations": {"note": "x"}}}).make(person)
    await agent_attempts.ALLOWED["the load of its cards"].make(ground)

    await attempts.works(ground, agent_attempts.applied_lease({}, renewTime="2026-01-02T00:00:00.000000Z"))

    assert (await ground.read(L, "mine"))["metadata"]["annotations"] == {"note": "x"}


async def test_owners_of_others_do_not_stop_an_agent(ground: Ground) -> None:
    """A person may add an owner or a finalizer; the agent leaves them there and goes on."""
    other = (await ground.read(resources.NODES, "other"))["metadata"]
    keeper = {"apiVersion": "v1", "kind": "Node", "name": other["name"], "uid": other["uid"]}
    change = attempts.owned(keeper)
    person = ground.by(ground.admin)
    for resource in (D, L, G):
        await Attempt(resource, "mine", change).make(person)

    await agent_attempts.ALLOWED["its Device"].make(ground)
    await agent_attempts.ALLOWED["its Lease"].make(ground)
    await agent_attempts.ALLOWED["a GpuPod of its node"].make(ground)


async def test_leases_elsewhere_are_not_an_agents(ground: Ground) -> None:
    """Not even one that has the name of its node, and least of all the leader's."""
    for name in ("<mine>", names.LEADER_LEASE):
        thing = {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE}}
        with pytest.raises(errors.Forbidden, match=agent_attempts.LEASE):
            await ground.session.apply(resources.LEASES, ground.filled(thing), manager="test")


async def test_a_status_carries_no_metadata(ground: Ground) -> None:
    """What would be smuggled in beside a verdict is dropped by the server."""
    before = await ground.read(D, "mine")

    await Attempt(D, "mine", {"metadata": {"annotations": {"new": "x"}}}, sub="status").make(ground)

    assert await ground.read(D, "mine") == before


async def test_others_are_not_held_to_it(ground: Ground) -> None:
    """People and the operator write what is theirs: the bounds are those of the agents' account alone."""
    attempt = agent_attempts.REFUSED["a cordon"]
    person = ground.by(ground.admin)

    await attempt.make(person)

    assert (await ground.read(D, "mine"))["spec"]["cordon"][-1] == "GPU-x"
