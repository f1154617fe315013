"""What the operator writes of claims and volumes, on the real server: one field of what it has read."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from berth_crds.client import api, resources
from berth_operator.engine import ports
from berth_operator.kube.volume_writer import VolumeWriter
from berth_operator.scheduling.volumes import facts
from kube.conftest import RecordingApi
from support import storage, stub

Body = dict[str, Any]


class Storage:
    """A claim and a volume on the real server, as the operator reads them, and its writer."""

    def __init__(self, session: RecordingApi, admin: api.Api, namespace: str) -> None:
        self.session, self.admin, self.namespace = session, admin, namespace
        self.leading = True
        self.writer = VolumeWriter(session, lambda: self.leading)
        self.name = f"disk-{secrets.token_hex(3)}"

    async def claim(self) -> facts.Claim:
        """Read the claim."""
        uid = (await self.stored(resources.CLAIMS, "data"))["metadata"]["uid"]
        found = await self.writer.read_claim(facts.Claim(namespace=self.namespace, name="data", uid=uid))
        assert isinstance(found, facts.Claim)
        return found

    async def volume(self) -> facts.Volume:
        """Read the volume."""
        found = await self.writer.read_volume(self.name)
        assert isinstance(found, facts.Volume)
        return found

    async def stored(self, resource: resources.Resource, name: str) -> Body:
        """Return an object as it is, without what every write changes."""
        namespace = self.namespace if resource.namespaced else ""
        found: Body = await self.admin.get(resource, name, into=dict, namespace=namespace)
        for key in ("managedFields", "resourceVersion"):
            found["metadata"].pop(key, None)
        return found

    async def patch(self, resource: resources.Resource, name: str, change: Body) -> None:
        """Have somebody else change an object."""
        path = resource.path(name, namespace=self.namespace if resource.namespaced else "")
        body = msgspec.json.encode(change)
        await self.admin.send("PATCH", path, body=body, content=api.MERGE_PATCH)


LABEL: Final = {"metadata": {"labels": {"somebody": "else"}}}


@pytest.fixture
async def made(session: RecordingApi, admin: api.Api, namespace: str) -> AsyncIterator[Storage]:
    """Yield a claim of a class that nobody serves, and a volume of another."""
    lent = Storage(session, admin, namespace)
    await admin.create(resources.CLAIMS, storage.claim("data", "late"), namespace=namespace)
    await admin.create(resources.VOLUMES, storage.volume(lent.name, "other", {"zone": "a"}))
    yield lent
    await admin.delete(resources.VOLUMES, lent.name)


async def test_a_node_is_selected_and_nothing_else_is_changed(made: Storage) -> None:
    """The claim that is read afterwards has the node."""
    before = await made.stored(resources.CLAIMS, "data")

    assert await made.writer.select_node(await made.claim(), "n1") == ports.Written()

    after = await made.stored(resources.CLAIMS, "data")
    assert after["metadata"].pop("annotations") == {storage.SELECTED: "n1"}
    assert after == before
    assert (await made.claim()).selected_node == "n1"


async def test_a_volume_is_meant_for_a_claim_and_nothing_else_is_changed(made: Storage) -> None:
    """By its uid, so that no later claim of that name is meant."""
    before = await made.stored(resources.VOLUMES, made.name)
    claim = await made.claim()

    assert await made.writer.reserve_volume(await made.volume(), claim) == ports.Written()

    after = await made.stored(resources.VOLUMES, made.name)
    reference = after["spec"].pop("claimRef")
    assert reference["uid"] == claim.uid
    assert after["spec"] == before["spec"]
    found = await made.volume()
    assert (found.claim, found.claim_uid) == (claim.key, claim.uid)


async def test_what_has_changed_since_it_was_read_is_left_as_it_is(made: Storage) -> None:
    """The answer is unclear, so that it is read again."""
    claim, volume = await made.claim(), await made.volume()
    await made.patch(resources.CLAIMS, "data", LABEL)
    await made.patch(resources.VOLUMES, made.name, LABEL)

    answers = [await made.writer.select_node(claim, "n1"), await made.writer.reserve_volume(volume, claim)]

    assert all(isinstance(one, ports.Unknown) for one in answers)
    assert (await made.claim()).selected_node == ""
    assert (await made.volume()).claim is None


async def test_of_two_writes_of_one_revision_one_is_carried_out(made: Storage) -> None:
    """A write of a former leader, which comes late, and that of the next one do not mix."""
    claim = await made.claim()

    first, second = await asyncio.gather(
        *(made.writer.select_node(claim, node) for node in ("n1", "n2")),
    )

    assert {type(first), type(second)} == {ports.Written, ports.Unknown}
    assert (await made.claim()).selected_node == ("n1" if first == ports.Written() else "n2")


async def test_without_the_lead_nothing_is_sent(made: Storage) -> None:
    """A process that was suspended does not go on with its writes."""
    claim, volume = await made.claim(), await made.volume()
    made.leading, sent = False, len(made.session.sent)

    answers = [await made.writer.select_node(claim, "n1"), await made.writer.reserve_volume(volume, claim)]

    assert all(isinstance(one, ports.Refused) for one in answers)
    assert len(made.session.sent) == sent


async def test_another_claim_of_that_name_is_gone(made: Storage) -> None:
    """A claim is the one with its uid."""
    claim = await made.claim()
    other = facts.Claim(namespace=claim.namespace, name=claim.name, uid="another")
    missing = facts.Claim(namespace=claim.namespace, name="missing")

    assert [await made.writer.read_claim(one) for one in (other, missing)] == [ports.Gone()] * 2
    assert await made.writer.read_volume("missing") == ports.Gone()


# ---------------------------------------------------------------- what no server answers on demand

CLAIM: Final = facts.Claim(namespace="ml", name="data", uid="u", version="7")
PATH: Final = resources.CLAIMS.path("data", namespace="ml")
ANSWERS: Final[dict[str, tuple[stub.Answer, type[object]]]] = {
    "a conflict": (stub.status(409, "changed"), ports.Unknown),
    "a server that is busy": (stub.status(429, "later"), ports.Unknown),
    "a server that fails": (stub.status(503, "going down"), ports.Unknown),
    "a connection that breaks": (stub.reset(), ports.Unknown),
    "a proxy's page": (stub.raw(b"<html>", code=502), ports.Unknown),
    "a claim that is gone": (stub.status(404, "no", reason="NotFound"), ports.Unknown),
    "no right": (stub.status(403, "no"), ports.Refused),
    "what is not valid": (stub.status(422, "no"), ports.Refused),
    "success": (stub.thing({}), ports.Written),
}


@pytest.mark.parametrize(("answer", "kind"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_what_an_answer_to_a_write_means(
    server: stub.Stub, stub_session: api.Api, answer: stub.Answer, kind: type[object]
) -> None:
    """What surely stays refused is Refused; whatever may have had an effect is read again."""
    server.on("PATCH", PATH, answer)

    assert isinstance(await VolumeWriter(stub_session, lambda: True).select_node(CLAIM, "n1"), kind)


@pytest.mark.parametrize(
    "answer",
    [stub.status(503, "going down"), stub.raw(b"no backend", code=404), stub.thing({"metadata": 7})],
    ids=["a server that fails", "a proxy's 404", "no claim at all"],
)
async def test_what_cannot_be_read_is_not_gone(
    server: stub.Stub, stub_session: api.Api, answer: stub.Answer
) -> None:
    """Nothing is concluded from an answer that proves nothing."""
    server.on("GET", PATH, answer)

    assert isinstance(await VolumeWriter(stub_session, lambda: True).read_claim(CLAIM), ports.Unknown)
