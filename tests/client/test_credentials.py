"""Who shows a token that is void reads so in one sentence."""

import base64
import dataclasses
import json
import time
from typing import Any, Final

import pytest

from berth_crds.client import api, connection, credentials, errors
from support import stub

NOW: Final = 1_800_000_000.0
NODE: Final = {"name": "gpu-1", "uid": "6cf3bbc0"}
ACCOUNT: Final = {"namespace": "berth-system", "serviceaccount": {"name": "berth-agent", "uid": "1"}}
COMMAND: Final = (
    "kubectl -n berth-system create token berth-agent --duration 24h"
    " --bound-object-kind Node --bound-object-name gpu-1"
)


def token(expires: float = NOW + 3600, **bound: Any) -> str:
    """Write a token as the API server makes them."""
    claims = json.dumps({"exp": expires, "kubernetes.io": ACCOUNT | bound}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2lnbmVk"


@pytest.mark.parametrize(
    ("token_", "reason"),
    [
        pytest.param(token(NOW - 1), "the token held until 2027-01-15 07:59:59 UTC: please", id="expired"),
        pytest.param(token(node=NODE), "void, for it is bound to a Node gpu-1 (uid 6cf3bbc0)", id="a Node"),
        pytest.param(token(node=NODE), COMMAND, id="a Node, and what to do"),
        pytest.param(token(pod=NODE, node=NODE), "void, for its Pod gpu-1 (uid 6cf3bbc0)", id="a Pod"),
        pytest.param(token(), credentials.UNKNOWN, id="unbound"),
        pytest.param("secret", credentials.UNKNOWN, id="of another make"),
        pytest.param("a.%%%.c", credentials.UNKNOWN, id="no base64"),
        pytest.param("a.e30.c", credentials.UNKNOWN, id="that says nothing"),
        pytest.param("a.W10.c", credentials.UNKNOWN, id="that says something else"),
    ],
)
def test_the_reason_why_a_token_is_refused(token_: str, reason: str) -> None:
    """What a token claims gives the reason why it is void; nothing that could be a secret is repeated."""
    sentence = credentials.why_refused(f"Bearer {token_}", NOW)

    assert reason in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", b"{}")])
async def test_the_error_of_a_request_with_a_void_token(
    server: stub.Stub, method: str, body: bytes | None
) -> None:
    """Whatever was asked, a 401 tells what became of the token, and what to do."""
    server.on(method, "/x", stub.status(401, "Unauthorized"))
    bound = connection.fixed_header(f"Bearer {token(time.time() + 3600, node=NODE)}")
    async with api.Api(dataclasses.replace(server.link, authorization=bound), agent="test") as session:
        with pytest.raises(errors.Unauthorized) as caught:
            await session.send(method, "/x", body=body)

    assert "the token is void, for it is bound to a Node gpu-1" in str(caught.value)
    assert COMMAND in str(caught.value)
