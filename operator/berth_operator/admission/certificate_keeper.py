"""Keeps the webhook's certificate: one for all replicas, in a Secret, and trusted by the API server.

Each replica looks from time to time. Whoever finds that the certificate ends soon writes a new one, and the
Secret's revision decides between two of them. Then the API server is told to trust both, and only after that
the new one is shown. So the server trusts at any moment what any replica shows.
"""

import asyncio
import base64
import binascii
import datetime as dt
import logging
from collections.abc import Callable
from typing import Any, Final, Never

import msgspec

from berth_crds import names, wire
from berth_crds.client import api, errors
from berth_crds.client.resources import Resource
from berth_operator.admission import certificates
from berth_operator.admission.certificates import ServingCertificate

log = logging.getLogger(__name__)

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
SECRET: Final = certificates.SERVICE
CONFIGURATION: Final = "berth-env"
CERTIFICATE, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
LOOK_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 2.0  # For all API servers to see what is written.


class Secret(wire.Struct, frozen=True):
    """The Secret; its values are in base64."""

    metadata: wire.Meta
    data: dict[str, str] | None = None


class ClientConfig(wire.Struct, frozen=True):
    """Whom a webhook's client trusts, as PEM in base64."""

    ca_bundle: str = ""


class Entry(wire.Struct, frozen=True):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig = ClientConfig()


class Configuration(wire.Struct, frozen=True):
    """The configuration that sends the API server to us."""

    webhooks: tuple[Entry, ...] | None = None


class CertificateKeeper:
    """Keeps the certificate in step with the API."""

    def __init__(
        self,
        session: api.Api,
        use: Callable[[ServingCertificate], None],
        *,
        wall: Callable[[], dt.datetime],
        namespace: str = names.SYSTEM_NAMESPACE,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._hosts = certificates.hosts(namespace)
        self._use = use
        self._wall = wall
        self._used: ServingCertificate | None = None
        self._fault = ""

    async def run(self) -> Never:
        """Look for ever."""
        while True:
            try:
                settled = await self.reconcile()
                self._log_fault("")
            except errors.ClientError as error:
                settled = False
                self._log_fault(str(error))
            await asyncio.sleep(LOOK_SECONDS if settled else SETTLE_SECONDS)

    async def reconcile(self) -> bool:
        """Look once; return whether the certificate in use is the newest."""
        secret = await self._session.get(SECRETS, SECRET, into=Secret, namespace=self._namespace)
        found, trusted = _contents(secret)
        if certificates.is_due(found, self._hosts, self._wall()) or found.certificate not in trusted:
            await self._renew(secret, found, trusted)
            return False
        if not await self._is_trusted(trusted):
            return False
        if found != self._used:
            self._use(found)
            self._used = found
            log.info("the webhook shows its certificate of %s", SECRET)
        return True

    async def _renew(self, secret: Secret, found: ServingCertificate, trusted: bytes) -> None:
        """Write a new certificate, which is not shown yet; of two that do so at once one is refused."""
        made = certificates.make(self._hosts, self._wall())
        in_use = self._used.certificate if self._used else b""
        before = certificates.still_valid(found.certificate + trusted, self._wall())
        bundle = b"".join(dict.fromkeys([made.certificate, *before[:1], in_use]))
        data = {CERTIFICATE: made.certificate, KEY: made.key, TRUSTED: bundle}
        body = {
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
        }
        path = SECRETS.path(SECRET, namespace=self._namespace)
        try:
            await self._patch(path, body, api.MERGE_PATCH)
        except errors.Conflict:
            log.info("another replica has renewed the certificate of the webhook")
        else:
            log.info("the certificate of the webhook is renewed")

    async def _is_trusted(self, trusted: bytes) -> bool:
        """Whether the API server trusted these certificates already; else it is told to."""
        bundle = base64.b64encode(trusted).decode()
        configuration = await self._session.get(CONFIGURATIONS, CONFIGURATION, into=Configuration)
        others = [one.name for one in configuration.webhooks or () if one.client_config.ca_bundle != bundle]
        if others:
            body = {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in others]}
            await self._patch(CONFIGURATIONS.path(CONFIGURATION), body, api.STRATEGIC_PATCH)
        return not others

    async def _patch(self, path: str, body: dict[str, Any], content: str) -> None:
        await self._session.send("PATCH", path, body=msgspec.json.encode(body), content=content)

    def _log_fault(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.warning("the certificate of the webhook cannot be kept: %s", fault)
        elif self._fault and not fault:
            log.info("the certificate of the webhook can be kept again")
        self._fault = fault


def _contents(secret: Secret) -> tuple[ServingCertificate, bytes]:
    """Return the certificate of a Secret, and all that are to be trusted; what cannot be read is empty."""
    data = secret.data or {}

    def value(name: str) -> bytes:
        try:
            return base64.b64decode(data.get(name, ""), validate=True)
        except binascii.Error:
            return b""

    return ServingCertificate(value(CERTIFICATE), value(KEY)), value(TRUSTED)
