"""The webhook over a real connection: what it shows, what it takes, and what it refuses."""

import asyncio
import contextlib
import datetime as dt
import io
import json
import ssl
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import pytest

from berth_crds import nesting
from berth_crds.client import errors
from berth_operator.admission import certificates, webhook
from testbed import ports

OLD, NEW = (certificates.make(("localhost",), dt.datetime.now(dt.UTC)) for _ in range(2))
REVIEW: Final = {"request": {"uid": "u", "object": {"spec": {"containers": [{"name": "a"}]}}}}


class Served:
    """A webhook and where it is."""

    def __init__(self, hook: webhook.Webhook, port: int) -> None:
        self.hook = hook
        self.port = port

    async def post(self, trusted: bytes, *, path: str = "/env", body: bytes | None = None) -> tuple[int, str]:
        """Post to it as a server that trusts a certificate, on a new connection."""
        trust = ssl.create_default_context(cadata=trusted.decode())
        trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As Go does: what is trusted need sign nothing.
        data = json.dumps(REVIEW).encode() if body is None else body
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"https://localhost:{self.port}{path}", data=io.BytesIO(data), ssl=trust) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Yield a webhook that has no certificate yet."""
    hook, port = webhook.Webhook(), ports.free()
    async with hook.serving(f"127.0.0.1:{port}"):
        yield Served(hook, port)


async def test_it_shows_the_newest_certificate(served: Served) -> None:
    """Without one nobody can ask it; a new one is shown to whoever connects from then on."""
    with pytest.raises(aiohttp.ClientError):
        await served.post(OLD.certificate)
    served.hook.use(OLD)
    status, answer = await served.post(OLD.certificate)
    assert (status, json.loads(answer)["response"]["uid"]) == (200, "u")

    served.hook.use(NEW)

    assert (await served.post(NEW.certificate))[0] == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await served.post(OLD.certificate)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/env", b"{}", 400, "This is no AdmissionReview of a pod"),
        ("/elsewhere", None, 404, ""),
        ("/ephemeral", None, 200, "AdmissionReview"),
    ],
)
async def test_what_it_cannot_answer_it_refuses(
    served: Served, path: str, body: bytes | None, status: int, says: str
) -> None:
    """With a sentence that the API server passes on."""
    served.hook.use(OLD)

    found, answer = await served.post(OLD.certificate, path=path, body=body)

    assert (found, says in answer) == (status, True)


async def test_a_body_beyond_any_pod_is_not_read(served: Served) -> None:
    """Whoever reaches the port could fill the memory with it."""
    served.hook.use(OLD)

    body = b" " * (webhook.LIMITS.request_bytes + (1 << 20))
    with contextlib.suppress(aiohttp.ClientError):  # It may be cut off before it is answered.
        assert (await served.post(OLD.certificate, body=body))[0] == 413

    assert (await served.post(OLD.certificate))[0] == 200


def containers(count: int) -> str:
    """Return an AdmissionReview of a pod with so many containers."""
    return json.dumps(
        {"request": {"uid": "u", "object": {"spec": {"initContainers": [{"name": "a"}] * count}}}}
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(containers(1001), "It has 1001 containers; 1000 are the most.", id="containers"),
        pytest.param(containers(25_000), "It consists of 25004 objects; 20000 are the most.", id="objects"),
    ],
)
@pytest.mark.parametrize("path", webhook.MUTATIONS)
def test_a_pod_that_would_hold_the_operator_up_is_refused(body: str, why: str, path: str) -> None:
    """The server passes the sentence on to whoever made it."""
    answer = json.loads(webhook.review(body.encode(), webhook.MUTATIONS[path]))["response"]

    assert (answer["uid"], answer["allowed"]) == ("u", False)
    assert answer["status"]["message"].endswith(why)


def test_lists_may_be_null() -> None:
    """Programs in Go write so what is empty."""
    spec = {"containers": [{"name": "a", "env": None}], "initContainers": None}
    body = json.dumps({"request": {"uid": "u", "oldObject": None, "object": {"spec": spec}}})

    answer = json.loads(webhook.review(body.encode(), webhook.MUTATIONS["/env"]))["response"]

    assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")


@pytest.mark.parametrize(
    "body", [b'{"request":{"uid":5,"x":[' + b"[]," * 1000 + b"[]]}}", b'{"request":{"x":' + b"[" * 100_000]
)
def test_what_is_no_review_is_not_looked_at_twice(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look, which objects of a server are worth, takes a thousand times as long."""
    monkeypatch.setattr(nesting, "cut_deep_values", None)

    with pytest.raises(errors.DECODE_ERRORS):
        webhook.review(body, webhook.MUTATIONS["/env"])


async def test_a_body_that_never_ends_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed, so that its place is there for others."""
    monkeypatch.setattr(webhook, "BODY_SECONDS", 0.2)
    served.hook.use(OLD)
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("localhost", served.port, ssl=blind)

    writer.write(b"POST /env HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_an_address_in_use_is_one_sentence(served: Served) -> None:
    """It ends the program, as with the other pages."""
    with pytest.raises(errors.Unusable, match=rf"^127.0.0.1:{served.port} cannot be listened at: "):
        async with webhook.Webhook().serving(f"127.0.0.1:{served.port}"):
            pass
