"""Writes kubeconfig files: where the server is, whom to trust, and who asks.

Certificates and keys are embedded, so that one file is all a client needs, wherever it is copied.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import yaml

from testbed import pki


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the authority that vouches for it."""

    server: str
    ca_file: Path


def with_certificate(path: Path, endpoint: Endpoint, *, client: pki.Pair) -> Path:
    """Write a kubeconfig whose user is a client certificate."""
    user = {
        "client-certificate-data": _embedded(client.certificate),
        "client-key-data": _embedded(client.key),
    }
    return _write(path, endpoint, user=user)


def with_token(path: Path, endpoint: Endpoint, *, token: str, namespace: str = "default") -> Path:
    """Write a kubeconfig whose user is a bearer token."""
    return _write(path, endpoint, user={"token": token}, namespace=namespace)


def _write(path: Path, endpoint: Endpoint, *, user: dict[str, str], namespace: str = "default") -> Path:
    cluster = {"server": endpoint.server, "certificate-authority-data": _embedded(endpoint.ca_file)}
    context = {"cluster": "testbed", "user": "testbed", "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": "testbed", "user": user}],
        "contexts": [{"name": "testbed", "context": context}],
        "current-context": "testbed",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
