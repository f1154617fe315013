"""Logging in: every form of kubeconfig, through kubernetes-asyncio.

In a pod the mounted service account is used by our own client. A kubeconfig may log in
by certificate, token, password, an exec plug-in or an identity provider; the library
knows them all, and what it finds is turned into our Connection. Whatever is wrong with
the files is found by our own reader first, which says it in one line.
"""

import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kubernetes_asyncio import client, config

from berth_crds.client import connection, errors

RENEW_SECONDS: Final = 60.0


async def connect(kubeconfig: str | None = None, *, context: str | None = None) -> connection.Connection:
    """Find the configuration and log in with it."""
    paths = connection.find(kubeconfig)
    return connection.from_pod() if paths is None else await from_kubeconfig(paths, context=context)


async def from_kubeconfig(paths: tuple[Path, ...], *, context: str | None) -> connection.Connection:
    """Log in as a kubeconfig says."""
    origin = os.pathsep.join(str(path) for path in paths)
    files = connection.merge(paths)
    entry = connection.pick(files.contexts, context or files.current, what="context", origin=origin)
    connection.pick(files.clusters, entry.get("cluster"), what="cluster", origin=origin)
    if entry.get("user"):
        connection.pick(files.users, entry["user"], what="user", origin=origin)
    found = client.Configuration()
    try:
        loader = await config.load_kube_config(
            config_file=origin, context=context, client_configuration=found, persist_config=False
        )
        trust = _trust(found) if str(found.host).startswith("https") else None
    except Exception as error:  # the library and its plug-ins raise whatever they like
        raise errors.Unusable(f"{origin}: login failed: {_line(error)}.") from error
    return connection.Connection(
        server=str(found.host).rstrip("/"),
        trust=trust,
        authorization=Login(loader, found),
        origin=f"{origin}, context {context or files.current}",
        namespace=str(entry.get("namespace") or "default"),
        server_name=found.tls_server_name,
        proxy=found.proxy,
    )


class Login:
    """The Authorization header of a kubeconfig's user, renewed where a plug-in made it."""

    def __init__(self, loader: Any, found: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._loader = loader
        self._found = found
        self._clock = clock
        self._checked = clock()

    async def __call__(self) -> str:
        """Give the header; once a minute ask the plug-in whether its token still holds."""
        if self._clock() - self._checked >= RENEW_SECONDS:
            # Noted before the wait, so that others go on with the old token meanwhile.
            self._checked = self._clock()
            await self._renew()
        return str(self._found.api_key.get("BearerToken", ""))

    async def _renew(self) -> None:
        try:
            # Cheap where nothing has to be done: the loader knows when a plug-in's token expires.
            await self._loader.load_and_set(self._found)
        except Exception as error:  # the plug-in is somebody else's program
            message = f"the login cannot be renewed: {_line(error)}"
            raise errors.Unreachable(message, ambiguous=False) from error


def _trust(found: Any) -> ssl.SSLContext:
    trust = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if not found.verify_ssl:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    if found.cert_file and found.key_file:
        trust.load_cert_chain(found.cert_file, found.key_file)
    return trust


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
