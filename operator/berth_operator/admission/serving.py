"""Serves the webhook, with a certificate that the API server trusts."""

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable

from berth_crds import tasks
from berth_crds.client import api
from berth_operator.admission import certificate_keeper, certificates, webhook


@contextlib.asynccontextmanager
async def serving(
    session: api.Api,
    address: str,
    namespace: str,
    *,
    wall: Callable[[], dt.datetime],
    trusted: Callable[[], None],
) -> AsyncIterator[None]:
    """Answer the API server about new pods, and call `trusted` once it can ask."""
    hook = webhook.Webhook()

    def use(certificate: certificates.ServingCertificate) -> None:
        hook.use(certificate)
        trusted()

    keeper = certificate_keeper.CertificateKeeper(session, use, wall=wall, namespace=namespace)
    async with hook.serving(address), tasks.running(keeper.run()):
        yield
