"""Answers the API server, which asks before it stores a pod of Berth's what is to be changed in it.

Every replica answers, leader or not. Which requests come, and to which path, says
manifests/webhook/configuration.yaml.
"""

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from berth_crds import http_connections, wire
from berth_crds.client import errors
from berth_operator.admission import mutations
from berth_operator.admission.certificates import ServingCertificate
from berth_operator.http_api import server

# A server stores no object of more than about 1.5 MiB; an update brings two.
LIMITS: Final = http_connections.Limits(connections=64, request_bytes=4 << 20, body=True)
BODY_SECONDS: Final = 5.0
# Nothing else runs while a request is answered, and anybody in the cluster may send some. So many take a few
# milliseconds; people's pods have a few containers, and a few hundred objects in all.
MOST_OBJECTS: Final = 20_000
MOST_CONTAINERS: Final = 1_000


class Pod(wire.Struct, frozen=True):
    """What is read of a pod."""

    spec: mutations.Spec = mutations.Spec()


class Request(wire.Struct, frozen=True):
    """What the API server asks; `old_object` is None while a pod is made."""

    uid: str
    object: Pod
    old_object: Pod | None = None


class Review(wire.Struct, frozen=True):
    """An AdmissionReview."""

    request: Request


class RequestId(wire.Struct, frozen=True):
    """What the answer to a request must repeat."""

    uid: str


class ReviewId(wire.Struct, frozen=True):
    """An AdmissionReview of which no more than this is read."""

    request: RequestId


_review_decoder: Final = msgspec.json.Decoder(Review)
_review_id_decoder: Final = msgspec.json.Decoder(ReviewId)

Mutate = Callable[[Request], Iterable[mutations.Operation]]
# By path.
MUTATIONS: Final[dict[str, Mutate]] = {
    "/env": lambda asked: mutations.feed(asked.object.spec),
    "/scheduler-name": lambda asked: mutations.claim(asked.object.spec),
    "/ephemeral": lambda asked: mutations.blind(asked.object.spec, (asked.old_object or Pod()).spec),
}


class Webhook:
    """The webhook at one address; it speaks TLS once it has a certificate."""

    def __init__(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def use(self, serving: ServingCertificate) -> None:
        """Show this certificate to all who connect from now on."""
        # The library reads files only, and a key should lie on no disk.
        descriptor = os.memfd_create("webhook", os.MFD_CLOEXEC)
        try:
            file = Path(f"/proc/self/fd/{descriptor}")
            file.write_bytes(serving.certificate + serving.key)
            self._tls.load_cert_chain(file)
        finally:
            os.close(descriptor)

    def serving(self, address: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Answer at HOST:PORT while the block runs."""
        routes = [web.post(path, _answering(mutate)) for path, mutate in MUTATIONS.items()]
        return server.listening(address, routes, limits=LIMITS, tls=self._tls)


def _answering(mutate: Mutate) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
            return web.Response(body=review(body, mutate), content_type="application/json")
        except TimeoutError:
            late = web.Response(status=408, text=f"The request was not whole after {BODY_SECONDS:g} s.\n")
            late.force_close()
            return late
        except errors.DECODE_ERRORS as error:
            return web.Response(status=400, text=f"This is no AdmissionReview of a pod: {error}\n")

    return answer


def review(body: bytes, mutate: Mutate) -> bytes:
    """Return the answer to an AdmissionReview, or raise one of `errors.DECODE_ERRORS`."""
    # Lists that are null are foreseen here; a second look at what cannot be read would take far too long.
    if (count := body.count(b"{")) > MOST_OBJECTS:
        asked_id = _review_id_decoder.decode(body).request
        return _refusal(asked_id.uid, f"It consists of {count} objects; {MOST_OBJECTS} are the most.")
    asked = _review_decoder.decode(body).request
    if (count := mutations.container_count(asked.object.spec)) > MOST_CONTAINERS:
        return _refusal(asked.uid, f"It has {count} containers; {MOST_CONTAINERS} are the most.")
    changes: dict[str, Any] = {}
    if operations := list(mutate(asked)):
        patch = base64.b64encode(msgspec.json.encode(operations)).decode()
        changes = {"patchType": "JSONPatch", "patch": patch}
    return _response(asked.uid, allowed=True, **changes)


def _refusal(uid: str, why: str) -> bytes:
    message = f"Berth cannot tell the containers of this pod which cards they have. {why}"
    return _response(uid, allowed=False, status={"code": 400, "reason": "BadRequest", "message": message})


def _response(uid: str, **content: Any) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": uid, **content},
        }
    )
