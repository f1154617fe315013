"""What the client writes, a real API server keeps: whole objects, preconditions, and fields by manager."""

import asyncio
import dataclasses
import itertools
import json
import ssl
import time

import msgspec
import pytest

from berth_crds.client import api, connection, errors, resources, sockets
from support import mirror
from testbed import cluster as clusters
from testbed import proxy

MAPS = mirror.CONFIG_MAPS


async def read(admin: api.Api, name: str, namespace: str) -> mirror.ConfigMap:
    """Read a ConfigMap."""
    return await admin.get(MAPS, name, into=mirror.ConfigMap, namespace=namespace)


async def create(admin: api.Api, name: str, namespace: str, **data: str) -> mirror.ConfigMap:
    """Create a ConfigMap."""
    body = await admin.create(MAPS, {"metadata": {"name": name}, "data": data}, namespace=namespace)
    return msgspec.json.decode(body, type=mirror.ConfigMap)


async def test_an_object_is_created_once(admin: api.Api, namespace: str) -> None:
    """What was created can be read, and a second one of the name is a conflict."""
    made = await create(admin, "a", namespace, k="v")

    assert await read(admin, "a", namespace) == made
    assert made.data == {"k": "v"}
    with pytest.raises(errors.Conflict):
        await create(admin, "a", namespace)


async def test_what_is_not_there_is_not_found(admin: api.Api, namespace: str) -> None:
    """Reading, replacing and deleting nothing is NotFound."""
    for attempt in (
        admin.get(MAPS, "a", into=mirror.ConfigMap, namespace=namespace),
        admin.replace(MAPS, "a", {"metadata": {"name": "a"}}, namespace=namespace),
        admin.delete(MAPS, "a", namespace=namespace),
    ):
        with pytest.raises(errors.NotFound):
            await attempt


async def test_a_replace_needs_the_revision_that_was_read(admin: api.Api, namespace: str) -> None:
    """Of two writers who read the same revision, the second is refused and changes nothing."""
    made = await create(admin, "a", namespace, k="v")
    first, second = (msgspec.structs.replace(made, data={"k": word}) for word in ("one", "two"))

    await admin.replace(MAPS, "a", first, namespace=namespace)
    with pytest.raises(errors.Conflict):
        await admin.replace(MAPS, "a", second, namespace=namespace)

    assert (await read(admin, "a", namespace)).data == {"k": "one"}


async def test_a_delete_may_name_the_very_object(admin: api.Api, namespace: str) -> None:
    """With a uid only that object is deleted, and not its successor of the same name."""
    old = await create(admin, "a", namespace)
    await admin.delete(MAPS, "a", namespace=namespace, uid=old.metadata.uid)
    new = await create(admin, "a", namespace)

    with pytest.raises(errors.Conflict):
        await admin.delete(MAPS, "a", namespace=namespace, uid=old.metadata.uid)

    assert (await read(admin, "a", namespace)).metadata.uid == new.metadata.uid


async def apply(admin: api.Api, namespace: str, manager: str, **data: str) -> None:
    """Apply a ConfigMap's data as a manager."""
    thing = {"metadata": {"name": "a", "namespace": namespace}, "data": data}
    await admin.apply(MAPS, thing, manager=manager)


async def test_two_managers_keep_each_others_fields(admin: api.Api, namespace: str) -> None:
    """An apply creates, adds, changes and removes what its manager owns, and nothing else."""
    await apply(admin, namespace, "ada", mine="1", dropped="2")
    await apply(admin, namespace, "bob", yours="3")

    await apply(admin, namespace, "ada", mine="4")

    assert (await read(admin, "a", namespace)).data == {"mine": "4", "yours": "3"}


async def test_an_apply_takes_a_field_over(admin: api.Api, namespace: str) -> None:
    """A field that somebody else wrote is written all the same: the one who is right insists."""
    await apply(admin, namespace, "ada", k="theirs")

    await apply(admin, namespace, "bob", k="ours")

    assert (await read(admin, "a", namespace)).data == {"k": "ours"}


async def test_an_apply_that_says_nothing_new_is_no_new_revision(admin: api.Api, namespace: str) -> None:
    """Applying the same again leaves the object's revision as it is, so that nobody is woken."""
    await apply(admin, namespace, "ada", k="v")
    before = await read(admin, "a", namespace)

    await apply(admin, namespace, "ada", k="v")

    assert await read(admin, "a", namespace) == before


async def test_the_status_is_written_apart(admin: api.Api, namespace: str, cluster: clusters.Cluster) -> None:
    """Spec and status of a pod have writers of their own: neither write touches the other part."""
    pod = {
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }
    await admin.create(resources.PODS, pod, namespace=namespace)
    meta = {"name": "p", "namespace": namespace}

    condition = {"type": "Told", "status": "True"}
    status = {"metadata": meta, "status": {"conditions": [condition]}}
    await admin.apply(resources.PODS, status, manager="ada", sub="status")
    await admin.apply(resources.PODS, {"metadata": meta, "status": {"phase": "Failed"}}, manager="ada")

    found = cluster.kubectl(
        "get", "pod", "p", "-n", namespace, "-o", "jsonpath={.status.phase} {.status.conditions[*].type}"
    )
    assert found == "Pending Told"


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_who_gives_up_at_any_turn_of_the_loop_leaves_no_socket_behind(
    cluster: clusters.Cluster, method: str
) -> None:
    """Amid the greeting too, which the transport of asyncio goes on with otherwise."""
    link = connection.load(cluster.admin_kubeconfig)
    left: list[int] = []
    for turns in itertools.count():
        async with api.Api(link, agent="test") as session:
            task = asyncio.create_task(
                session.send(method, MAPS.path(), body=b"{}" if method == "POST" else None)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            done = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        left += [turns for each in session._sockets if each.fileno() >= 0]
        if done:
            break

    assert turns > 5
    assert left == []


async def test_a_session_ends_at_once_amid_a_stream(cluster: clusters.Cluster) -> None:
    """A watch that nobody wants any more leaves no socket behind, even where the other side is silent."""
    link = connection.load(cluster.admin_kubeconfig)
    async with proxy.Proxy(cluster.port) as wire:
        async with api.Api(dataclasses.replace(link, server=wire.server), agent="test") as session:
            path, params = MAPS.path(), {"watch": "true"}
            async with session.stream(path, params=params, idle_seconds=60, head_seconds=10) as content:
                await content.readany()
                wire.hold()
            open_until_now = list(session._sockets)
            started = time.monotonic()
        assert time.monotonic() - started < sockets.LINGER_SECONDS / 2
        assert open_until_now
        assert [each.fileno() for each in open_until_now if each.fileno() >= 0] == []
        wire.resume()


async def test_the_token_of_a_node_that_was_made_again_says_that_it_is_void(
    cluster: clusters.Cluster, admin: api.Api, namespace: str
) -> None:
    """It names the uid of the former Node, and the error tells that rather than a bare 401."""
    # Given a token that is bound to a Node
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"again-{namespace}"}}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
    cluster.service_account(namespace, "agent")
    token = cluster.token(namespace, "agent", node=f"again-{namespace}")

    # When the Node is deleted and made again
    cluster.kubectl("delete", "node", f"again-{namespace}")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))

    # Then who shows the token reads so, with what to do
    link = dataclasses.replace(admin.link, authorization=connection.StaticToken(token))
    bare = ssl.create_default_context(cafile=str(cluster.ca_file))
    async with api.Api(dataclasses.replace(link, trust=bare), agent="test") as session:
        with pytest.raises(errors.Unauthorized) as caught:
            await session.get(resources.NODES, f"again-{namespace}", into=dict)
    assert f"the token is void, for it is bound to a Node again-{namespace}" in str(caught.value)
    assert f"--bound-object-kind Node --bound-object-name again-{namespace}" in str(caught.value)
