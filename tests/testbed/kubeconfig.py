"""Writes kubeconfig files: where the server is, whom to trust, and who asks.

Certificates and keys are embedded, so that one file is all a client needs, wherever it is copied.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from testbed import pki

User = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the authority that vouches for it."""

    server: str
    ca_file: Path | None


def certificate(pair: pki.Pair) -> User:
    """Return the user whom a client certificate names."""
    return {
        "client-certificate-data": _embedded(pair.certificate),
        "client-key-data": _embedded(pair.key),
    }


def token(value: str) -> User:
    """Return the user whom a bearer token names."""
    return {"token": value}


def write(path: Path, endpoint: Endpoint, users: Mapping[str, User], *, namespace: str = "default") -> Path:
    """Write a kubeconfig with a context for each user, of the user's name; the first is the current one."""
    cluster = {"server": endpoint.server}
    if endpoint.ca_file:
        cluster["certificate-authority-data"] = _embedded(endpoint.ca_file)
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
