"""What an answer to a bind means that no server gives on demand."""

import asyncio
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, errors, resources
from berth_operator.engine import ports
from berth_operator.kube import binding_writer
from berth_operator.scheduling import queued_pods
from kube.binding_writers import TERM, Writer
from support import pods, stub

CANDIDATE = queued_pods.PodInfo(uid="u-1", namespace="ml", name="p")
PATH = resources.PODS.path("p", namespace="ml")
BINDING = resources.PODS.path("p", namespace="ml", sub="binding")
DENIED = 'admission webhook "deny.example.com" denied the request'
FAILED = 'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: EOF'


@pytest.fixture
def writer(stub_session: api.Api, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """Lend a writer that gives up soon."""
    monkeypatch.setattr(binding_writer, "CLIENT_SECONDS", 2.0)
    return Writer(stub_session)


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
    server: stub.Stub, writer: Writer, answer: stub.Answer, kind: type[ports.Outcome], *, open_: bool | None
) -> None:
    """What may have had an effect is Unknown, what surely had none is Refused, and nothing is sent twice."""
    server.on("POST", BINDING, answer)

    outcome = await writer.bind_to(CANDIDATE)

    assert isinstance(outcome, kind)
    assert getattr(outcome, "open", None) is open_
    (request,) = server.requests
    assert request.query["timeout"] == "3s"


@pytest.mark.parametrize(("message", "doubts"), [(FAILED, 0), ("etcdserver: request timed out", 1)])
async def test_a_webhook_that_fails_puts_no_lead_in_doubt(
    server: stub.Stub, writer: Writer, message: str, doubts: int
) -> None:
    """It may be of one namespace alone, whose pods would else have the binds of all others wait."""
    server.on("POST", BINDING, stub.status(500, message))

    await writer.bind_to(CANDIDATE)

    assert writer.lead.doubts == doubts


async def test_a_term_that_is_over_writes_nothing(server: stub.Stub, writer: Writer) -> None:
    """Once the lead is in doubt no Binding leaves, and the pod is surely not bound by us."""
    writer.lead.leading = False

    assert await writer.bind_to(CANDIDATE) == ports.Refused(binding_writer.DEPOSED)
    assert server.requests == []


async def test_a_pod_that_nobody_may_change_keeps_its_lost_bind(server: stub.Stub, writer: Writer) -> None:
    """As long as a bind may arrive it is not given up."""
    server.on("GET", PATH, stub.thing({"metadata": {"uid": CANDIDATE.uid, "resourceVersion": "7"}}))

    assert isinstance(await writer.void(CANDIDATE), ports.Unknown)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, 7.0, id="as long as it says"),
        pytest.param({}, errors.THROTTLED_SECONDS, id="it does not say"),
        pytest.param({"Retry-After": "tomorrow"}, errors.THROTTLED_SECONDS, id="not in seconds"),
    ],
)
async def test_a_server_that_is_asked_for_too_much_gets_the_rest_it_asks_for(
    server: stub.Stub, writer: Writer, headers: dict[str, str], seconds: float
) -> None:
    """The pod is not bound, and the loop learns for how long to leave the server alone."""
    server.on("POST", BINDING, stub.status(429, "slow down", headers=headers))

    assert await writer.bind_to(CANDIDATE) == ports.Throttled("slow down", seconds)


async def test_a_fence_that_is_out_of_date_is_logged_once(
    server: stub.Stub, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """A moment of refusals is how a lead changes; when they go on, the log says what to do, one time."""
    refusal = f"pods \"p\" is forbidden: {binding_writer.FENCE} with binding 'berth-fence' denied request"
    server.on("POST", BINDING, stub.status(403, refusal))

    counts = []
    for _ in range(2):
        for _ in range(3):
            await writer.bind_to(CANDIDATE)
        counts.append(caplog.text.count("restart kube-apiserver"))
        writer.time.advance(binding_writer.FENCE_PATIENCE_SECONDS + 1)

    assert counts == [0, 1]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param('admission webhook "w" does not support dry run', ports.Bound(), id="no dry runs"),
        pytest.param("no", ports.Refused("no"), id="refused"),
    ],
)
async def test_a_webhook_that_judges_no_dry_run_forbids_no_bind(
    server: stub.Stub, writer: Writer, message: str, expected: ports.Outcome
) -> None:
    """The server refuses the dry run then, which says nothing of the bind itself."""
    server.on("POST", BINDING, stub.status(400, message))

    assert await writer.dry_run(CANDIDATE, pods.placement("n", pods.CARD)) == expected


def pod_as(**changes: Any) -> dict[str, Any]:
    """Return the pod as a server would show it."""
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
async def test_a_look_is_clear(
    server: stub.Stub, writer: Writer, answer: stub.Answer, outcome: ports.Outcome
) -> None:
    """The pod itself tells what became of it."""
    server.on("GET", PATH, answer)

    assert await writer.read_pod(CANDIDATE) == outcome


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
async def test_a_look_that_fails_decides_nothing(
    server: stub.Stub, writer: Writer, answer: stub.Answer
) -> None:
    """As long as the pod cannot be read nothing is certain, whatever the reason."""
    server.on("GET", PATH, answer)

    assert isinstance(await writer.read_pod(CANDIDATE), ports.Unknown)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.Unreachable("gone", ambiguous=False), "gone"),
        (errors.Unusable("no token"), "no token"),
        (errors.Oversized(409, "too large"), "too large"),
    ],
    ids=["the request never left", "no login", "too large"],
)
def test_what_surely_had_no_effect_is_refused(error: errors.ClientError, message: str) -> None:
    """Nothing of it can turn into a bind later."""
    assert binding_writer.outcome(error) == ports.Refused(message)


async def test_an_answer_that_only_the_pod_explains_names_its_revision(
    server: stub.Stub, writer: Writer
) -> None:
    """A look that finds the same revision shows that it was not refused for that."""
    server.on("POST", BINDING, stub.status(409, "no"))
    server.on("GET", PATH, stub.thing(pod_as(metadata={"resourceVersion": "7"})))
    writer._ledger.pod_waiting(CANDIDATE, gated=False, version="7")

    answer = await writer.bind_to(CANDIDATE)
    seen = await writer.read_pod(CANDIDATE)

    assert answer == ports.Unknown("no", open=False, version="7")
    assert seen == ports.Unbound(same=False, version="7")
