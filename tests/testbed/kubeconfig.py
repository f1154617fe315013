"""Writes kubeconfig files: where the server is, whom to trust, and who asks.

Certificates and keys are embedded, so that one file is all a client needs, wherever it is copied.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
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


def with_tokens(path: Path, endpoint: Endpoint, *, tokens: Mapping[str, str]) -> Path:
    """Write a kubeconfig of several users, each with a token and a context of his name."""
    return _write_all(path, endpoint, users={name: {"token": token} for name, token in tokens.items()})


def _write(path: Path, endpoint: Endpoint, *, user: Mapping[str, str], namespace: str = "default") -> Path:
    return _write_all(path, endpoint, users={"testbed": user}, namespace=namespace)


def _write_all(
    path: Path, endpoint: Endpoint, *, users: Mapping[str, Mapping[str, str]], namespace: str = "default"
) -> Path:
    cluster = {"server": endpoint.server, "certificate-authority-data": _embedded(endpoint.ca_file)}
    context = {"cluster": "testbed", "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": name, "user": dict(user)} for name, user in users.items()],
        "contexts": [{"name": name, "context": {**context, "user": name}} for name in users],
        "current-context": next(iter(users)),
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
