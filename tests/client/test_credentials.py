"""Who has nothing to show, or shows what is void, reads so in one sentence."""

import base64
import json
import time
from typing import Any, Final

import pytest

from berth_crds.client import api, connection, credentials, errors, resources
from client.conftest import Folder
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


# ---------------------------------------------------------------- none


@pytest.mark.parametrize(
    "user", [{}, {"token": ""}, {"username": None}], ids=["empty", "no token", "nothing"]
)
def test_a_user_without_credentials_is_refused(folder: Folder, user: dict[str, Any]) -> None:
    """A kubeconfig that makes nobody of us is said to, before the API server is asked anything."""
    config = folder.write(user=user)

    with pytest.raises(errors.Unusable, match="no credentials: the user 'c-user' has neither a token nor"):
        connection.load(config)


async def test_a_server_in_clear_may_know_us_by_itself(folder: Folder) -> None:
    """`kubectl proxy` shows credentials of its own, so a kubeconfig that leads there needs none."""
    config = folder.write(user={}, cluster={"server": "http://127.0.0.1:8001"})

    assert await connection.load(config).authorization() == ""


def test_a_value_of_the_wrong_kind_is_told_without_python(folder: Folder) -> None:
    """A list where a name should be is no reason to speak of types and attributes."""
    text = folder.write().read_text().replace("user: c-user", "user: [c-user]")
    config = folder.text("odd", text)

    with pytest.raises(errors.Unusable, match="something in it is of a kind that no kubeconfig has"):
        connection.load(config)


def test_who_is_anonymous_reads_that_no_credentials_arrived() -> None:
    """What the API server says of an anonymous request begins with what is wrong with it."""
    message = 'pods is forbidden: User "system:anonymous" cannot list resource "pods"'
    error = errors.from_answer(403, json.dumps(stub.failure(403, message, reason="Forbidden")).encode())

    assert type(error) is errors.Forbidden
    assert str(error) == f"403 Forbidden: {errors.NO_CREDENTIALS} ({message})"


# ---------------------------------------------------------------- void


@pytest.mark.parametrize(
    ("shown", "told"),
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
def test_a_refused_token_tells_why(shown: str, told: str) -> None:
    """What a token says of itself tells why it is void; nothing that could be a secret is repeated."""
    said = credentials.why_refused(f"Bearer {shown}", NOW)

    assert told in said
    assert "secret" not in said


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_401_says_what_became_of_the_token(method: str) -> None:
    """Whatever was asked, the error of a request with a void token is that sentence."""
    bound = connection.StaticToken(token(time.time() + 3600, node=NODE))
    path = resources.DEVICES.path("a")
    async with stub.Stub() as server:
        server.on(method, path, stub.status(401, "Unauthorized"))
        link = connection.Connection(server=server.link.server, authorization=bound)
        async with api.Api(link, agent="test") as session:
            with pytest.raises(errors.Unauthorized) as caught:
                await session.send(method, path, body=b"{}" if method == "POST" else None)

    assert "the token is void, for it is bound to a Node gpu-1" in str(caught.value)
    assert COMMAND in str(caught.value)
