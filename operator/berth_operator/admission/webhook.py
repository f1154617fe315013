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
from typing import Final

import msgspec
from aiohttp import web

from berth_crds import http_connections, wire
from berth_crds.client import decoding, errors
from berth_operator.admission import mutations
from berth_operator.admission.certificates import ServingCertificate
from berth_operator.http_api import server

# A server stores no object of more than about 1.5 MiB; an update brings two.
LIMITS: Final = http_connections.Limits(connections=64, request_bytes=8 << 20, body=True)
BODY_SECONDS: Final = 5.0


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
    asked = decoding.decode_object(msgspec.json.Decoder(Review), body).request
    response = {"uid": asked.uid, "allowed": True}
    if operations := list(mutate(asked)):
        patch = base64.b64encode(msgspec.json.encode(operations)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
