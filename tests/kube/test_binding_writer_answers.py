"""What an answer to a bind means that no server gives on demand."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, resources
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import binding_writer
from berth_operator.scheduling import queued_pods
from kube.binding_writers import TERM, Lead, bound_by, hand
from support import clock, pods, stub
from testbed import ports as sockets

CANDIDATE = queued_pods.Candidate(uid="u-1", namespace="ml", name="p")
PATH = resources.PODS.path("p", namespace="ml")


@pytest.fixture
async def made_up(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[stub.Stub]:
    """Lend a server that says what a test wants."""
    monkeypatch.setattr(binding_writer, "CLIENT_SECONDS", 2.0)
    async with stub.Stub() as server:
        yield server


DENIED = 'admission webhook "deny.example.com" denied the request'
FAILED = 'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: EOF'


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
        pytest.param(stub.status(429, f"{DENIED}: later"), ports.Refused, None, id="a webhook's 429"),
        pytest.param(stub.status(500, FAILED), ports.Refused, None, id="a webhook fails"),
        pytest.param(stub.status(500, f"quoted: {FAILED}"), ports.Unknown, True, id="a webhook is quoted"),
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


@pytest.mark.parametrize(("message", "doubts"), [(FAILED, 0), ("etcdserver: request timed out", 1)])
async def test_a_webhook_that_fails_puts_no_lead_in_doubt(
    made_up: stub.Stub, message: str, doubts: int
) -> None:
    """It may be of one namespace alone, whose pods would else have the binds of all others wait."""
    made_up.on("POST", f"{PATH}/binding", stub.status(500, message))
    lead = Lead()

    async with api.Api(made_up.link, agent="test") as session:
        await hand(session, lead).bind(CANDIDATE, pods.placement("n1", pods.CARD))

    assert lead.doubts == doubts


async def test_a_pod_that_nobody_may_change_keeps_its_lost_bind(made_up: stub.Stub) -> None:
    """As long as a bind may arrive it is not given up."""
    made_up.on("GET", PATH, stub.thing({"metadata": {"uid": CANDIDATE.uid, "resourceVersion": "7"}}))

    async with api.Api(made_up.link, agent="test") as session:
        seen = await hand(session).void(CANDIDATE)

    assert isinstance(seen, ports.Unknown)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, 7.0, id="as long as it says"),
        pytest.param({}, binding_writer.THROTTLED_SECONDS, id="it does not say"),
        pytest.param({"Retry-After": "tomorrow"}, binding_writer.THROTTLED_SECONDS, id="not in seconds"),
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
    refusal = f"pods \"p\" is forbidden: {binding_writer.FENCE} with binding 'berth-fence' denied request"
    made_up.on("POST", f"{PATH}/binding", stub.status(403, refusal))
    now = clock.Clock()

    async with api.Api(made_up.link, agent="test") as session:
        bound = binding_writer.BindingWriter(session, Ledger(now), Lead(), term=TERM, clock=now)
        for _ in range(3):
            await bound.bind(CANDIDATE, pods.placement("n", pods.CARD))
        assert "berth-fence" not in caplog.text
        now.advance(binding_writer.FENCE_PATIENCE_SECONDS + 1)
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
        sender = binding_writer.BindingWriter(
            session, Ledger(clock.Clock()), Lead(), term=TERM, clock=clock.Clock()
        )
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
            ports.Refused("another scheduler bound the pod to n"),
            id="bound by another leader",
        ),
        pytest.param(
            stub.thing(pod_as(spec={"nodeName": "n"})),
            ports.Refused("another scheduler bound the pod to n"),
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
        assert await hand(session).read_pod(CANDIDATE) == outcome


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
        assert isinstance(await hand(session).read_pod(CANDIDATE), ports.Unknown)


def test_only_what_may_come_later_is_open() -> None:
    """A conflict is final; no answer at all may still turn into a bind until the server's deadline."""
    assert binding_writer.outcome(errors.Conflict(409, "no")) == ports.Unknown("no", open=False)
    assert binding_writer.outcome(errors.Unreachable("gone", ambiguous=True)) == ports.Unknown("gone")
    assert binding_writer.outcome(errors.Unreachable("gone", ambiguous=False)) == ports.Refused("gone")
    assert binding_writer.outcome(errors.Unusable("no token")) == ports.Refused("no token")
    assert binding_writer.outcome(errors.Oversized(409, "too large")) == ports.Refused("too large")


async def test_an_answer_that_only_the_pod_explains_tells_its_revision(made_up: stub.Stub) -> None:
    """A look that finds the same revision shows that it was not refused for that."""
    made_up.on("POST", f"{PATH}/binding", stub.status(409, "no"))
    made_up.on("GET", PATH, stub.thing(pod_as(metadata={"resourceVersion": "7"})))
    ledger = Ledger(clock.Clock())
    ledger.pod_waiting(CANDIDATE, gated=False, version="7")

    async with api.Api(made_up.link, agent="test") as session:
        sender = binding_writer.BindingWriter(session, ledger, Lead(), term=TERM, clock=clock.Clock())
        answer = await sender.bind(CANDIDATE, pods.placement("n", pods.CARD))
        seen = await sender.read_pod(CANDIDATE)

    assert answer == ports.Unknown("no", open=False, version="7")
    assert isinstance(seen, ports.Unbound)
    assert seen.version == "7"
