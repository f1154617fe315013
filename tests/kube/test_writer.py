"""A bind is one write, and whatever the server says to it becomes the right outcome."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds import allocation, names
from berth_crds.client import api, connection, errors, resources, watch
from berth_operator.engine import ledger, ports
from berth_operator.kube import writer
from berth_operator.scheduling import backlog, decisions
from berth_operator.translate import raw
from kube.conftest import Noted, Wired
from support import builders, clock, hands, pods, stub
from testbed import cluster as clusters
from testbed import ports as sockets

TERM = "op-1_abcd/7"
NODE = "writer-node"


@pytest.fixture
def yard(admin: api.Api, namespace: str) -> pods.Yard:
    """Lend a namespace for pods."""
    return pods.Yard(admin, namespace)


class Lead(hands.Lead):
    """A lead that was perhaps lost, and knows how often it was doubted."""

    def __init__(self, *, leads: bool = True) -> None:
        self.led = leads
        self.doubts = 0

    def leads(self) -> bool:
        """Whether the lead is ours."""
        return self.led

    def doubt(self) -> None:
        """Count."""
        self.doubts += 1


def hand(session: api.Api, lead: Lead | None = None, book: ledger.Ledger | None = None) -> writer.Writer:
    """Make a writer of a term."""
    book = book or ledger.Ledger(time.monotonic)
    return writer.Writer(session, book, lead or Lead(), term=TERM, clock=time.monotonic)


def bound_by(session: api.Api, candidate: backlog.Candidate, *cards: decisions.Share) -> Any:
    """Bind a pod to the node with these cards."""
    return hand(session).bind(candidate, pods.placement(NODE, *cards))


# ---------------------------------------------------------------- one write


async def test_everything_is_one_revision(session: Noted, yard: pods.Yard) -> None:
    """Node, allocation, minors, term and label appear together: no watcher ever sees a part of it."""
    candidate = await yard.create(pods.manifest("p", cards=2))
    before = (await yard.read("p")).metadata.resource_version
    path = resources.PODS.path(namespace=yard.namespace)
    codec = watch.Codec(raw.Pod)

    async with watch.opened(yard.admin, path, codec, selectors={}, version=before, seconds=30) as events:
        outcome = await bound_by(session, candidate, pods.CARD, pods.OTHER_CARD)
        async with asyncio.timeout(10):
            event = await anext(events)

    assert outcome == ports.Bound()
    assert isinstance(event, watch.Event)
    pod = event.thing
    assert isinstance(pod, raw.Pod)
    assert pod.spec.node_name == NODE
    assert pod.metadata.labels[names.FENCED_LABEL] == "true"
    said = pod.metadata.annotations
    assert said[names.TERM] == TERM
    assert said[names.MINORS] == "0,1"
    assert said["main.devices.berth.dev/uuids"] == "GPU-0001,GPU-0002"
    record = allocation.decode(said[names.ALLOCATION])
    assert isinstance(record, allocation.Allocation)
    assert record.node == NODE
    assert [entry.share.uuid for entry in record.entries()] == ["GPU-0001", "GPU-0002"]
    assert session.sent == [("POST", resources.PODS.path("p", namespace=yard.namespace, sub="binding"))]


async def test_a_pod_without_cards_has_no_allocation(session: Noted, yard: pods.Yard) -> None:
    """Who asked for no card gets the node and the term, nothing else."""
    candidate = await yard.create(pods.manifest("p"))

    await bound_by(session, candidate)

    assert (await yard.read("p")).metadata.annotations == {names.TERM: TERM}


async def test_a_term_that_is_over_writes_nothing(session: Noted, yard: pods.Yard) -> None:
    """Once the lead is in doubt no Binding leaves, and the pod is surely not bound by us."""
    candidate = await yard.create(pods.manifest("p", cards=1))

    outcome = await hand(session, Lead(leads=False)).bind(candidate, pods.placement(NODE, pods.CARD))

    assert outcome == ports.Refused("the term is over")
    assert session.sent == []


async def test_a_dry_run_writes_nothing(session: Noted, yard: pods.Yard) -> None:
    """The server says what it would say of the bind, and the pod has no node afterwards."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    placement = pods.placement(NODE, pods.CARD)
    before = (await yard.read("p")).metadata.resource_version

    accepted = await hand(session).dry_run(candidate, placement)
    after = await yard.read("p")
    bound = await hand(session).bind(candidate, placement)
    late = await hand(session).dry_run(candidate, placement)

    assert (accepted, bound) == (ports.Bound(), ports.Bound())
    assert isinstance(late, ports.Unknown)
    assert (after.spec.node_name, after.metadata.resource_version) == ("", before)


# ---------------------------------------------------------------- what a real server refuses


async def test_a_recreated_pod_is_not_the_one_that_was_meant(session: Noted, yard: pods.Yard) -> None:
    """The uid is a precondition: another pod of the same name is left alone, and ours is gone."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    await yard.delete("p")
    await yard.create(pods.manifest("p", cards=1))

    outcome = await bound_by(session, candidate, pods.CARD)
    looked = await hand(session).look(candidate)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert looked == ports.Gone()
    assert (await yard.read("p")).spec.node_name == ""


async def test_a_pod_that_we_bound_already(session: Noted, yard: pods.Yard) -> None:
    """A second bind changes nothing, and the pod itself tells that it is bound, and by us."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    await bound_by(session, candidate, pods.CARD)
    before = await yard.read("p")

    outcome = await bound_by(session, candidate, pods.OTHER_CARD)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert await hand(session).look(candidate) == ports.Bound()
    assert await yard.read("p") == before


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param({"schedulingGates": [{"name": "example.com/wait"}]}, id="gated"),
        pytest.param({}, id="being deleted"),
    ],
)
async def test_a_pod_that_may_not_be_bound(session: Noted, yard: pods.Yard, obstacle: dict[str, Any]) -> None:
    """A gated pod and one that is being deleted are refused for certain: nothing happens later."""
    pod = pods.manifest("p", cards=1, **obstacle)
    pod["metadata"]["finalizers"] = ["example.com/keep"]
    candidate = await yard.create(pod)
    if not obstacle:
        await yard.delete("p")

    outcome = await bound_by(session, candidate, pods.CARD)
    looked = await hand(session).look(candidate)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert isinstance(looked, ports.Unbound if obstacle else ports.Gone)
    await yard.patch("p", {"metadata": {"finalizers": None}})


async def test_a_pod_that_is_not_there(session: Noted, namespace: str) -> None:
    """Binding and looking for a pod that does not exist is Gone."""
    nobody = backlog.Candidate(uid="none", namespace=namespace, name="nobody")

    assert isinstance(await bound_by(session, nobody, pods.CARD), ports.Unknown)
    assert await hand(session).look(nobody) == ports.Gone()


async def test_somebody_without_the_right(berth: clusters.Cluster, yard: pods.Yard) -> None:
    """Without the right to bind the answer is a clear no."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    stranger = connection.load(berth.kubeconfig_for(yard.namespace, "default"))

    async with api.Api(stranger, agent="test-stranger") as session:
        outcome = await bound_by(session, candidate, pods.CARD)

    assert isinstance(outcome, ports.Refused)
    assert "cannot create resource" in outcome.message


# ---------------------------------------------------------------- a wire in trouble


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the writer give up soon."""
    monkeypatch.setattr(writer, "CLIENT_SECONDS", 0.5)


async def warm(session: api.Api) -> None:
    """Have a connection that the next bind uses again: one that cannot be made is a clear no."""
    await bound_by(session, builders.candidate("nobody"), pods.CARD)


@pytest.mark.usefixtures("hurried")
async def test_an_answer_that_is_lost_is_looked_up(wired: Wired, yard: pods.Yard) -> None:
    """The server bound the pod and we did not hear: unclear, and a look finds that it is bound."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    await warm(wired.session)
    wired.wire.hold(answers_only=True)

    outcome = await bound_by(wired.session, candidate, pods.CARD)
    wired.wire.cut()
    wired.wire.resume()

    assert isinstance(outcome, ports.Unknown)
    assert outcome.open
    assert await hand(wired.session).look(candidate) == ports.Bound()


@pytest.mark.usefixtures("hurried")
async def test_a_request_that_is_lost_is_looked_up(wired: Wired, yard: pods.Yard) -> None:
    """The request never arrived: unclear just the same, and a look finds that nothing happened."""
    candidate = await yard.create(pods.manifest("p", cards=1))
    await warm(wired.session)
    wired.wire.hold()

    outcome = await bound_by(wired.session, candidate, pods.CARD)
    wired.wire.cut()
    wired.wire.resume()

    assert isinstance(outcome, ports.Unknown)
    assert outcome.open
    assert isinstance(await hand(wired.session).look(candidate), ports.Unbound)


# ---------------------------------------------------------------- answers that a test can only make up

CANDIDATE = backlog.Candidate(uid="u-1", namespace="ml", name="p")
PATH = resources.PODS.path("p", namespace="ml")


@pytest.fixture
async def made_up(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[stub.Stub]:
    """Lend a server that says what a test wants."""
    monkeypatch.setattr(writer, "CLIENT_SECONDS", 0.3)
    async with stub.Stub() as server:
        yield server


async def outcome_of(server: stub.Stub) -> ports.Outcome:
    """Bind the pod there."""
    async with api.Api(server.link, agent="test") as session:
        found: ports.Outcome = await bound_by(session, CANDIDATE, pods.CARD)
    return found


@pytest.mark.parametrize(
    ("answer", "kind", "open_"),
    [
        pytest.param(stub.status(500, "etcdserver: request timed out"), ports.Unknown, True, id="500"),
        pytest.param(stub.status(503, "going down"), ports.Unknown, True, id="503"),
        pytest.param(stub.status(504, "context deadline exceeded"), ports.Unknown, True, id="504"),
        pytest.param(stub.raw(b"<html>", code=502), ports.Unknown, True, id="a proxy's page"),
        pytest.param(stub.reset(), ports.Unknown, True, id="reset after the request"),
        pytest.param(stub.later(asyncio.Event(), stub.thing({})), ports.Unknown, True, id="no answer"),
        pytest.param(stub.status(409, "already assigned"), ports.Unknown, False, id="409"),
        pytest.param(stub.status(429, "too many requests"), ports.Throttled, None, id="429"),
        pytest.param(stub.status(400, "bad"), ports.Refused, None, id="400"),
        pytest.param(stub.status(401, "who?"), ports.Refused, None, id="401"),
        pytest.param(stub.status(403, "the fence says no"), ports.Refused, None, id="403"),
        pytest.param(stub.status(422, "invalid"), ports.Refused, None, id="422"),
        pytest.param(stub.thing({}, code=302, headers={"Location": "/"}), ports.Unknown, True, id="302"),
        pytest.param(stub.status(404, "no", reason="NotFound"), ports.Unknown, False, id="404"),
        pytest.param(stub.raw(b"no backend", code=404), ports.Unknown, True, id="a proxy's 404"),
        pytest.param(stub.raw(b"", code=408), ports.Unknown, True, id="408"),
        pytest.param(stub.thing({"kind": "Status"}, code=201), ports.Bound, None, id="201"),
    ],
)
async def test_what_an_answer_means(
    made_up: stub.Stub, answer: stub.Answer, kind: type[ports.Outcome], *, open_: bool | None
) -> None:
    """What may have had an effect is Unknown, what surely had none is Refused, and nothing is sent twice."""
    made_up.on("POST", f"{PATH}/binding", answer)

    outcome = await outcome_of(made_up)

    assert isinstance(outcome, kind)
    assert getattr(outcome, "open", None) is open_
    assert len(made_up.requests) == 1
    assert made_up.requests[0].query["timeout"] == "3s"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, 7.0, id="as long as it says"),
        pytest.param({}, writer.REST_SECONDS, id="it does not say"),
        pytest.param({"Retry-After": "tomorrow"}, writer.REST_SECONDS, id="not in seconds"),
    ],
)
async def test_a_server_that_is_asked_for_too_much_gets_the_rest_it_asks_for(
    made_up: stub.Stub, headers: dict[str, str], seconds: float
) -> None:
    """The pod is not bound, and the loop learns for how long to leave the server alone."""
    made_up.on("POST", f"{PATH}/binding", stub.status(429, "slow down", headers=headers))

    assert await outcome_of(made_up) == ports.Throttled("slow down", seconds)


async def test_a_fence_that_is_out_of_date_is_told_once(
    made_up: stub.Stub, caplog: pytest.LogCaptureFixture
) -> None:
    """A moment of refusals is how a lead changes; when they go on, the log says what to do, one time."""
    refusal = f"pods \"p\" is forbidden: {writer.FENCE} with binding 'berth-fence' denied request"
    made_up.on("POST", f"{PATH}/binding", stub.status(403, refusal))
    now = clock.Clock()

    async with api.Api(made_up.link, agent="test") as session:
        bound = writer.Writer(session, ledger.Ledger(now), Lead(), term=TERM, clock=now)
        for _ in range(3):
            await bound.bind(CANDIDATE, pods.placement("n", pods.CARD))
        assert "berth-fence" not in caplog.text
        now.advance(writer.FENCE_PATIENCE_SECONDS + 1)
        for _ in range(3):
            await bound.bind(CANDIDATE, pods.placement("n", pods.CARD))

    assert caplog.text.count("restart kube-apiserver") == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param('admission webhook "w" does not support dry run', ports.Bound(), id="no dry runs"),
        pytest.param("no", ports.Refused("no"), id="refused"),
    ],
)
async def test_a_webhook_that_judges_no_dry_run_forbids_no_bind(
    made_up: stub.Stub, message: str, expected: ports.Outcome
) -> None:
    """The server refuses the dry run then, which says nothing of the bind itself."""
    made_up.on("POST", f"{PATH}/binding", stub.status(400, message))

    async with api.Api(made_up.link, agent="test") as session:
        sender = writer.Writer(session, ledger.Ledger(clock.Clock()), Lead(), term=TERM, clock=clock.Clock())
        answer = await sender.dry_run(CANDIDATE, pods.placement("n", pods.CARD))

    assert answer == expected


async def test_nobody_there() -> None:
    """A refused connection is a clear no: the request never left."""
    reservation = sockets.Reservation()
    link = connection.Connection(server=f"http://127.0.0.1:{reservation.port}")

    async with api.Api(link, agent="test") as session:
        outcome = await bound_by(session, CANDIDATE, pods.CARD)
    reservation.release()

    assert isinstance(outcome, ports.Refused)


def pod_as(**changes: Any) -> dict[str, Any]:
    """Make the pod as a server would show it."""
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u-1"} | changes.pop("metadata", {}),
        **changes,
    }


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(
            stub.thing(pod_as(spec={"nodeName": "n"}, metadata={"annotations": {names.TERM: TERM}})),
            ports.Bound(),
            id="bound by us",
        ),
        pytest.param(
            stub.thing(pod_as(spec={"nodeName": "n"}, metadata={"annotations": {names.TERM: "op-2_x/8"}})),
            ports.Refused("somebody else bound the pod to n"),
            id="bound by another leader",
        ),
        pytest.param(
            stub.thing(pod_as(spec={"nodeName": "n"})),
            ports.Refused("somebody else bound the pod to n"),
            id="bound by hand",
        ),
        pytest.param(stub.thing(pod_as(spec={})), ports.Unbound(same=False), id="not bound, and another one"),
        pytest.param(stub.thing(pod_as(metadata={"uid": "u-2"})), ports.Gone(), id="another one"),
        pytest.param(stub.status(404, "no such pod", reason="NotFound"), ports.Gone(), id="gone"),
    ],
)
async def test_a_look_is_clear(made_up: stub.Stub, answer: stub.Answer, outcome: ports.Outcome) -> None:
    """The pod itself tells what became of it."""
    made_up.on("GET", PATH, answer)

    async with api.Api(made_up.link, agent="test") as session:
        assert await hand(session).look(CANDIDATE) == outcome


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(stub.status(500, "no"), id="500"),
        pytest.param(stub.status(403, "no"), id="403"),
        pytest.param(stub.raw(b"default backend - 404", code=404), id="a proxy's 404"),
        pytest.param(stub.raw(b"<html>"), id="garbage"),
        pytest.param(stub.thing({"metadata": 7}), id="an odd pod"),
        pytest.param(stub.reset(), id="reset"),
    ],
)
async def test_a_look_that_fails_decides_nothing(made_up: stub.Stub, answer: stub.Answer) -> None:
    """As long as the pod cannot be read nothing is certain, whatever the reason."""
    made_up.on("GET", PATH, answer)

    async with api.Api(made_up.link, agent="test") as session:
        assert isinstance(await hand(session).look(CANDIDATE), ports.Unknown)


def test_only_what_may_come_later_is_open() -> None:
    """A conflict is final; no answer at all may still turn into a bind until the server's deadline."""
    assert writer.outcome(errors.Conflict(409, "no")) == ports.Unknown("no", open=False)
    assert writer.outcome(errors.Unreachable("gone", ambiguous=True)) == ports.Unknown("gone")
    assert writer.outcome(errors.Unreachable("gone", ambiguous=False)) == ports.Refused("gone")
    assert writer.outcome(errors.Unusable("no token")) == ports.Refused("no token")
