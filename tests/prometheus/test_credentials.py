"""What the operator shows to Prometheus, and whom it trusts: files that flags name, never the policy."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth_operator.prometheus import client, faults, queries
from support import stub
from testbed import pki

ANSWER = b'{"status":"success"}'


@pytest.fixture
def authority(tmp_path: Path) -> pki.Authority:
    """Lend an authority that signs certificates."""
    return pki.Authority(tmp_path)


@pytest.fixture
async def secure(authority: pki.Authority) -> AsyncIterator[stub.Stub]:
    """Lend a server that speaks TLS with a certificate of that authority."""
    pair = authority.server("prometheus")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    async with stub.Stub(context) as server:
        server.on("GET", queries.PATH, stub.raw(ANSWER))
        yield server


async def ask(server: stub.Stub, credentials: client.Credentials) -> bytes:
    """Return the answer to a query."""
    async with client.session(server.link.server, credentials) as session:
        return await session.query("up")


async def fault_of(server: stub.Stub, credentials: client.Credentials) -> str:
    """Return why a query has no answer."""
    with pytest.raises(faults.Fault) as fault:
        await ask(server, credentials)
    return str(fault.value)


def write(file: str, token: str) -> str:
    """Write a token into a file, and return the file."""
    Path(file).write_text(f"{token}\n")
    return file


@pytest.fixture
def token(tmp_path: Path) -> str:
    """Lend a file with a token."""
    return write(f"{tmp_path}/token", "secret")


async def test_a_token_and_a_certificate_of_ones_own(
    secure: stub.Stub, authority: pki.Authority, token: str
) -> None:
    """The token goes to the server that the certificates vouch for; what is read anew is used anew."""
    credentials = client.Credentials(token, f"{authority.certificate}")
    assert await ask(secure, credentials) == ANSWER
    write(token, "renewed")
    assert await ask(secure, credentials) == ANSWER

    shown = [request.headers["Authorization"] for request in secure.requests]
    assert shown == ["Bearer secret", "Bearer renewed"]


async def test_a_server_that_nobody_vouches_for_is_asked_nothing(secure: stub.Stub, token: str) -> None:
    """It never sees the token."""
    fault = await fault_of(secure, client.Credentials(token))

    assert fault.startswith("it cannot be reached: the server's certificate is not accepted")
    assert secure.requests == []


async def test_a_token_is_not_sent_in_clear(token: str) -> None:
    """Not even to a server that would do with it."""
    async with stub.Stub() as server:
        fault = await fault_of(server, client.Credentials(token))

        assert fault == "the token of --prometheus-token-file is sent over https:// alone"
        assert server.requests == []


@pytest.mark.parametrize("code", [401, 403])
async def test_a_token_that_is_not_taken_is_told(
    secure: stub.Stub, authority: pki.Authority, token: str, code: int
) -> None:
    """By the flag that names it; the token itself stands nowhere."""
    secure.on("GET", queries.PATH, stub.raw(b"", code=code))

    fault = await fault_of(secure, client.Credentials(token, f"{authority.certificate}"))

    assert fault == f"it wants credentials ({code}), and the token of --prometheus-token-file is not taken"


async def test_files_that_cannot_be_used_are_named(
    secure: stub.Stub, authority: pki.Authority, tmp_path: Path
) -> None:
    """With the flag that names them."""
    missing, trusted = f"{tmp_path}/missing", f"{authority.certificate}"

    assert await fault_of(secure, client.Credentials(missing, trusted)) == (
        f"--prometheus-token-file: The token file {missing} cannot be read: No such file or directory."
    )
    assert await fault_of(secure, client.Credentials("", missing)) == (
        f"--prometheus-ca-file {missing} cannot be used: No such file or directory"
    )
