"""What the client writes, a real API server keeps: whole objects, preconditions, and fields by manager."""

import asyncio
import dataclasses
import json
import ssl

import msgspec
import pytest

from berth_crds.client import api, connection, errors, resources, sockets
from client.informers import CONFIG_MAPS, ConfigMap
from testbed import cluster as clusters
from testbed import proxy


async def create(admin: api.Api, namespace: str, **data: str) -> ConfigMap:
    """Create a ConfigMap."""
    body = await admin.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": data}, namespace=namespace)
    return msgspec.json.decode(body, type=ConfigMap)


async def read(admin: api.Api, namespace: str) -> ConfigMap:
    """Read it."""
    return await admin.get(CONFIG_MAPS, "a", into=ConfigMap, namespace=namespace)


async def replace(admin: api.Api, namespace: str, thing: ConfigMap, **data: str) -> None:
    """Replace it, as it was when it was read but for its data."""
    await admin.replace(CONFIG_MAPS, "a", msgspec.structs.replace(thing, data=data), namespace=namespace)


async def apply(admin: api.Api, namespace: str, manager: str, **data: str) -> None:
    """Apply its data as a manager."""
    thing = {"metadata": {"name": "a", "namespace": namespace}, "data": data}
    await admin.apply(CONFIG_MAPS, thing, manager=manager)


async def test_a_write_has_a_precondition(admin: api.Api, namespace: str) -> None:
    """Create wants no object of the name, replace the revision that was read, delete the very object."""
    made = await create(admin, namespace, k="v")
    assert (made.data, await read(admin, namespace)) == ({"k": "v"}, made)
    await replace(admin, namespace, made, k="replaced")

    for attempt in (
        create(admin, namespace),
        replace(admin, namespace, made, k="too late"),
        admin.delete(CONFIG_MAPS, "a", namespace=namespace, uid="that-of-another"),
    ):
        with pytest.raises(errors.Conflict):
            await attempt

    found = await read(admin, namespace)
    assert (found.data, found.metadata.uid) == ({"k": "replaced"}, made.metadata.uid)


async def test_what_is_not_there_is_not_found(admin: api.Api, namespace: str) -> None:
    """Reading, replacing and deleting what was deleted is NotFound."""
    made = await create(admin, namespace)
    await admin.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid)

    for attempt in (
        read(admin, namespace),
        replace(admin, namespace, made),
        admin.delete(CONFIG_MAPS, "a", namespace=namespace),
    ):
        with pytest.raises(errors.NotFound):
            await attempt


async def test_an_apply_writes_what_its_manager_owns(admin: api.Api, namespace: str) -> None:
    """It creates, changes, takes over and removes fields, and what is the same is no new revision."""
    await apply(admin, namespace, "ada", mine="1", dropped="2", taken="theirs")
    await apply(admin, namespace, "bob", yours="3", taken="ours")

    await apply(admin, namespace, "ada", mine="4")
    found = await read(admin, namespace)
    await apply(admin, namespace, "ada", mine="4")

    assert found.data == {"mine": "4", "yours": "3", "taken": "ours"}
    assert await read(admin, namespace) == found


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_who_gives_up_at_any_turn_of_the_loop_leaves_no_socket_behind(
    cluster: clusters.Cluster, method: str
) -> None:
    """Amid the greeting too, which the transport of asyncio goes on with otherwise."""
    link = connection.load(cluster.admin_kubeconfig)
    body, turns, done = b"{}" if method == "POST" else None, 0, False
    while not done:
        turns += 1
        async with api.Api(link, agent="test") as session:
            task = asyncio.create_task(session.send(method, CONFIG_MAPS.path(), body=body))
            for _ in range(turns):
                await asyncio.sleep(0)
            done = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert not [made for made in session._sockets if made.fileno() >= 0], f"after {turns} turns"

    assert turns > 5


async def test_a_session_ends_at_once_amid_a_stream(
    cluster: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that nobody wants any more leaves no socket behind, even where the other side is silent."""
    monkeypatch.setattr(sockets, "LINGER_SECONDS", 3600.0)
    link = connection.load(cluster.admin_kubeconfig)
    async with asyncio.timeout(60), proxy.Proxy(cluster.port) as wire:
        async with api.Api(dataclasses.replace(link, server=wire.server), agent="test") as session:
            path, params = CONFIG_MAPS.path(), {"watch": "true"}
            async with session.stream(path, params=params, idle_seconds=60, head_seconds=10) as content:
                await content.readany()
                wire.hold()
            (made,) = session._sockets
        assert made.fileno() < 0
        wire.resume()


async def test_the_token_of_a_node_that_was_made_again_is_void(
    cluster: clusters.Cluster, admin: api.Api, namespace: str
) -> None:
    """It names the uid of the former Node, and the error tells that rather than a bare 401."""
    # Given a token that is bound to a Node
    name = f"again-{namespace}"
    node = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    cluster.kubectl("create", "-f", "-", stdin=node)
    cluster.service_account(namespace, "agent")
    token = connection.fixed_header(f"Bearer {cluster.token(namespace, 'agent', node=name)}")

    # When the Node is deleted and made again
    cluster.kubectl("delete", "node", name)
    cluster.kubectl("create", "-f", "-", stdin=node)

    # Then who shows the token reads so, with what to do
    trust = ssl.create_default_context(cafile=str(cluster.ca_file))
    link = dataclasses.replace(admin.link, authorization=token, trust=trust)
    async with api.Api(link, agent="test") as session:
        with pytest.raises(errors.Unauthorized) as caught:
            await session.get(resources.NODES, name, into=dict)
    assert f"the token is void, for it is bound to a Node {name}" in str(caught.value)
    assert f"--bound-object-kind Node --bound-object-name {name}" in str(caught.value)
