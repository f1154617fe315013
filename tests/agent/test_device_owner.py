"""The owner that an agent names is the Node that is there, also when the server refuses another one."""

from typing import Any, Final

import pytest

from berth_agent.publish import device_publisher
from berth_crds import names, wire
from berth_crds.client import api, errors, resources
from support import stub, timeless

NODE: Final = "n1"
SPEC: Final = wire.DeviceSpec(NODE, summary=wire.SpecSummary("T4 x1", 1))
STATUS: Final = wire.DeviceStatus()


def stored(uid: str) -> dict[str, Any]:
    """Make the Device as the server shows it, owned by a Node of this uid."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}
    meta = {"name": NODE, "uid": "d", "resourceVersion": "9", "ownerReferences": [owner]}
    told = {"node": NODE, "devices": [], "summary": {"models": "T4 x1", "gpus": 1}}
    return {"apiVersion": names.API_VERSION, "kind": "Device", "metadata": meta, "spec": told}


async def test_a_node_made_again_is_read_anew_when_its_former_uid_is_refused() -> None:
    """Not only the end of a Device tells that its Node may be another one now: a refusal does, too."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        nodes = [stub.thing({"metadata": {"uid": uid}}) for uid in ("former", "new")]
        server.on("GET", resources.NODES.path(NODE), *nodes)
        page = stub.page(version="5")
        listed = stub.by_query("watch", {"": page, "true": stub.status(503, "away")})
        server.on("GET", resources.DEVICES.path(), listed)
        refusal = stub.status(403, "the Node has another uid", reason="Forbidden")
        server.on("PATCH", resources.DEVICES.path(NODE), refusal, stub.thing(stored("new")))
        publisher = device_publisher.DevicePublisher(session, NODE, on_change=lambda: None)
        async with timeless.beside(publisher.informer.run()):
            await publisher.informer.wait_synced()

            with pytest.raises(errors.Forbidden):
                await publisher.publish(SPEC, STATUS)
            owner = await publisher.publish(SPEC, STATUS)

    assert owner.uid == "new"
