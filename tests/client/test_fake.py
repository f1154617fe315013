"""The API server in memory, for tests of programs that use Berth's kinds."""

import asyncio
from collections.abc import AsyncIterator

import kubernetes_asyncio
import pytest

from berth_crds import fake, wire
from berth_crds.client import api, errors, informer, resources
from berth_crds.fake import objects
from testbed import waiting


def device(name: str, *cordon: str) -> wire.Device:
    """Return the Device of a node with one card."""
    spec = wire.DeviceSpec(name, devices=(wire.Card(f"GPU-{name}", "gpu", 0),), cordon=cordon)
    return wire.Device(wire.Meta(name, labels={"zone": name[-1]}), spec)


@pytest.fixture
async def server() -> AsyncIterator[fake.Server]:
    """Yield a server with two Devices."""
    async with fake.serving(device("node-a"), device("node-b")) as server:
        yield server


@pytest.fixture
async def session(server: fake.Server) -> AsyncIterator[api.Api]:
    """Yield a session with it."""
    async with api.Api(server.connection, agent="test") as session:
        yield session


class Sink:
    """What an informer has passed on."""

    def __init__(self) -> None:
        self.devices: dict[str, wire.Device] = {}

    def upserted(self, thing: wire.Device, /) -> None:
        """Keep it."""
        self.devices[thing.metadata.name] = thing

    def deleted(self, meta: wire.Meta, /) -> None:
        """Forget it."""
        del self.devices[meta.name]


async def test_an_informer_follows_what_a_test_puts_there(server: fake.Server, session: api.Api) -> None:
    """Objects that are there, that come, change and go; and it knows when it is up to date."""
    sink = Sink()
    follower = informer.Informer(session, resources.DEVICES, wire.Device, sink)
    running = asyncio.create_task(follower.run())
    try:
        await follower.wait_synced()
        assert set(sink.devices) == {"node-a", "node-b"}
        server.put(device("node-c"), device("node-a", "0"))
        await waiting.eventually(lambda: sink.devices["node-a"].spec.cordon == ("0",), what="the change")
        assert set(sink.devices) == {"node-a", "node-b", "node-c"}
        assert sink.devices["node-a"].metadata.generation == 2
        await session.delete(resources.DEVICES, "node-b")
        await follower.catch_up()
        assert set(sink.devices) == {"node-a", "node-c"}
    finally:
        running.cancel()


async def test_an_outdated_write_is_refused(session: api.Api) -> None:
    """As by the real server: so a test sees whether a program reads again."""
    found = await session.get(resources.DEVICES, "node-a", into=wire.Device)
    body = {"metadata": {"name": "node-a", "resourceVersion": found.metadata.resource_version}}
    await session.replace(resources.DEVICES, "node-a", {**body, "spec": {"node": "node-a"}})

    with pytest.raises(errors.Conflict, match="please apply your changes to the latest version"):
        await session.replace(resources.DEVICES, "node-a", {**body, "spec": {"node": "other"}})
    assert (await session.get(resources.DEVICES, "node-a", into=wire.Device)).spec.devices == ()
    with pytest.raises(errors.Conflict, match="precondition"):
        await session.delete(resources.DEVICES, "node-a", uid="another")


async def test_an_object_is_applied_and_its_status_apart(session: api.Api) -> None:
    """It is made where it is not there; a status leaves the rest alone."""
    meta = {"name": "node-z"}
    await session.apply(resources.DEVICES, {"metadata": meta, "spec": {"node": "node-z"}}, manager="me")
    status = {"metadata": meta, "spec": {"node": "lost"}, "status": {"claims": ["a"]}}
    await session.apply(resources.DEVICES, status, manager="me", sub="status")

    found = await session.get(resources.DEVICES, "node-z", into=wire.Device)
    assert (found.spec.node, found.status.claims) == ("node-z", ("a",))
    assert found.metadata.generation == 1


async def test_a_pod_is_bound_once(session: api.Api) -> None:
    """With the annotations of the binding, as Berth binds."""
    await session.create(resources.PODS, {"metadata": {"name": "p"}, "spec": {}}, namespace="ns")
    bound = {"metadata": {"name": "p", "annotations": {"a": "1"}}, "target": {"name": "node-a"}}
    await session.create(resources.PODS, bound, namespace="ns", sub="binding")

    with pytest.raises(errors.Conflict, match='already assigned to node "node-a"'):
        await session.create(resources.PODS, bound, namespace="ns", sub="binding")
    pod = await session.get(resources.PODS, "p", into=dict, namespace="ns")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("node-a", {"a": "1"})


async def test_any_client_can_ask_it(server: fake.Server) -> None:
    """Such as the official one, which knows nothing of Berth."""
    configuration = kubernetes_asyncio.client.Configuration(host=server.url)
    async with kubernetes_asyncio.client.ApiClient(configuration) as client:
        custom = kubernetes_asyncio.client.CustomObjectsApi(client)
        kind = ("berth.dev", "v1alpha1", "devices")
        listed = await custom.list_cluster_custom_object(*kind, label_selector="zone=b")
        assert [one["metadata"]["name"] for one in listed["items"]] == ["node-b"]
        (found,) = listed["items"]
        found["spec"]["cordon"] = ["0"]
        replaced = await custom.replace_cluster_custom_object(*kind, "node-b", found)
        assert replaced["spec"]["cordon"] == ["0"]
        with pytest.raises(kubernetes_asyncio.client.ApiException) as raised:
            await custom.get_cluster_custom_object(*kind, "node-q")
        assert (raised.value.status, raised.value.reason) == (404, "Not Found")


@pytest.mark.parametrize(
    ("labels", "fields", "names"),
    [
        ("zone=a", "", ["node-a"]),
        ("zone==a", "", ["node-a"]),
        ("zone!=a", "", ["node-b"]),
        ("zone", "metadata.name=node-b", ["node-b"]),
        ("!zone", "", []),
        ("", "spec.node!=node-a", ["node-b"]),
    ],
)
async def test_selectors_select(session: api.Api, labels: str, fields: str, names: list[str]) -> None:
    """By equality, and by what is there."""
    params = {"labelSelector": labels, "fieldSelector": fields}
    body = await session.read(resources.DEVICES.path(), params=params, most=1 << 20)
    found = api.decode(body, dict, path="")["items"]
    assert [one["metadata"]["name"] for one in found] == names


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/nowhere", None, 404),
        ("GET", "/api/v1/namespaces/ns/pods/p/status/more", None, 404),
        ("POST", "/api/v1/namespaces/ns/pods", b"{", 400),
        ("POST", "/api/v1/namespaces/ns/pods", b"[]", 400),
        ("POST", "/api/v1/namespaces/ns/pods", b"{}", 422),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", b"{}", 405),
        ("DELETE", "/api/v1/pods", None, 405),
    ],
)
async def test_what_it_does_not_know_is_refused(
    session: api.Api, method: str, path: str, body: bytes | None, code: int
) -> None:
    """With the codes that the real one answers, so that a test does not pass by chance."""
    with pytest.raises(errors.ApiError) as raised:
        await session.send(method, path, body=body)
    assert raised.value.code == code


def test_a_merge_patch_removes_by_null() -> None:
    """As RFC 7396 has it."""
    assert objects.merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]}) == {
        "a": {"c": 2},
        "d": [2],
    }
    assert objects.merged("text", {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}
