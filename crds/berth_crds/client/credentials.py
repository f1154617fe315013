"""Why the API server takes a token no more, read from the token itself.

A 401 says nothing but that. A token of a service account tells until when it holds, and of
which Pod or Node: once that is deleted the token is void, even if another of the same name
is made. What is read here is not verified, and no right follows from it.
"""

import base64
import binascii
import datetime as dt
import time
from typing import Final

import msgspec

from berth_crds.client import errors

UNKNOWN: Final = "the API server does not know the credentials that were given"
AGAIN: Final = "please make a new token, and start the program anew with it"
USUAL: Final = "Unauthorized"  # The server's own words, which say nothing more.
PARTS: Final = 3


class Bound(msgspec.Struct):
    """The object with which a token ends."""

    name: str = ""
    uid: str = ""


class Account(msgspec.Struct):
    """What Kubernetes says of a token's account."""

    namespace: str = ""
    node: Bound | None = None
    pod: Bound | None = None
    serviceaccount: Bound = msgspec.field(default_factory=Bound)


class Claims(msgspec.Struct):
    """What a token says of itself."""

    expires: float = msgspec.field(name="exp", default=0.0)
    account: Account = msgspec.field(name="kubernetes.io", default_factory=Account)


_decoder: Final = msgspec.json.Decoder(Claims)


def explained(error: errors.Unauthorized, header: str) -> errors.Unauthorized:
    """Return a 401 that says what became of the token in this Authorization header, and what to do."""
    suffix = "" if error.message == USUAL else f" ({error.message})"
    return errors.Unauthorized(error.code, why_refused(header, time.time()) + suffix, reason=error.reason)


def why_refused(header: str, now: float) -> str:
    """Return why the server refuses what this Authorization header shows, and what to do."""
    claims = read(header)
    account = claims.account
    if 0 < claims.expires <= now:
        until = dt.datetime.fromtimestamp(claims.expires, dt.UTC)
        return f"the token held until {until:%Y-%m-%d %H:%M:%S} UTC: {AGAIN}"
    if account.pod is not None:
        return (
            f"the token is void, for its Pod {account.pod.name} (uid {account.pod.uid}) is not there any more"
        )
    if account.node is not None:
        return (
            f"the token is void, for it is bound to a Node {account.node.name} (uid {account.node.uid}) "
            f"that is not there any more, even if the Node was made again: {AGAIN} "
            f"({_command(account, account.node)})"
        )
    return UNKNOWN


def read(header: str) -> Claims:
    """Read what the token in a header says of itself; one that is of another make says nothing."""
    parts = header.removeprefix("Bearer ").split(".")
    if len(parts) != PARTS:
        return Claims()
    try:
        return _decoder.decode(base64.urlsafe_b64decode(parts[1] + "=="))
    except (*errors.DECODE_ERRORS, binascii.Error, ValueError):
        return Claims()


def _command(account: Account, node: Bound) -> str:
    return (
        f"kubectl -n {account.namespace} create token {account.serviceaccount.name} --duration 24h "
        f"--bound-object-kind Node --bound-object-name {node.name}"
    )
