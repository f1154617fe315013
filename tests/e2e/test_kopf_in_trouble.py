"""While a CRD is missing Kopf cannot run: the operator says so, is ready all the same, and it passes."""

import asyncio
import contextlib
import http.client
import socket
from collections.abc import AsyncIterator

import pytest

from berth_crds import names
from e2e import disasters
from e2e.stage import Stage


@pytest.fixture
async def kinds(stage: Stage) -> AsyncIterator[None]:
    """Make sure that all kinds are there in the end."""
    yield
    await asyncio.to_thread(disasters.make_kinds, stage.cluster)


def ready(port: int) -> tuple[int, str]:
    """Ask whether the operator is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


async def until_ready_says(stage: Stage, port: int, word: str, *, said: bool) -> tuple[int, str]:
    """Wait until a word is in the answer, or is no more."""

    async def so() -> tuple[int, str] | None:
        status, text = await asyncio.to_thread(ready, port)
        return (status, text) if (word in text) is said else None

    return await stage.until(f"{word!r} in /readyz: {said}", so, seconds=60)


@pytest.mark.slow
@pytest.mark.usefixtures("kinds")
async def test_a_missing_kind_is_told_and_outlived(stage: Stage) -> None:
    """The probe names the trouble with 200, for binds do not depend on it; later nothing is left of it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    await stage.nodes(n1="2xT4")
    await stage.deciding_operator("--listen-probes", f"127.0.0.1:{port}")
    await stage.until_ready("n1")

    await asyncio.to_thread(stage.cluster.kubectl, "delete", "crd", f"{names.POLICIES}.{names.GROUP}")
    troubled, text = await until_ready_says(stage, port, "Kopf", said=True)
    await asyncio.to_thread(disasters.make_kinds, stage.cluster)
    well, _ = await until_ready_says(stage, port, "Kopf", said=False)

    assert (troubled, well) == (200, 200)
    assert "Kopf ended: " in text and "may be out of date" in text
