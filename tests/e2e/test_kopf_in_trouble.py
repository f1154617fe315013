"""While a CRD is missing Kopf cannot run: the operator says so, is ready all the same, and it passes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth_crds import names
from e2e import disasters
from e2e.stage import Stage
from support import thorough
from testbed import pages, ports, waiting


@pytest.fixture
async def kinds(stage: Stage) -> AsyncIterator[None]:
    """Make sure that all kinds are there in the end."""
    yield
    await asyncio.to_thread(disasters.make_kinds, stage.cluster)


async def until_ready_says(port: int, word: str, *, said: bool) -> pages.Answer:
    """Wait until a word is in the answer, or is no more."""

    def so() -> pages.Answer | None:
        answer = pages.get(port, "/readyz")
        return answer if (word in answer[1]) is said else None

    return await waiting.eventually(so, what=f"{word!r} in /readyz: {said}", seconds=60)


@pytest.mark.slow
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("kind", [names.GPU_PODS, thorough.case(names.POLICIES)])
async def test_a_missing_kind_is_told_and_outlived(stage: Stage, kind: str) -> None:
    """The probe names the trouble with 200, for binds do not depend on it; later nothing is left of it."""
    port = ports.free()
    await stage.nodes(n1="2xT4")
    await stage.deciding_operator("--listen-probes", f"127.0.0.1:{port}")
    await stage.until_ready("n1")

    await asyncio.to_thread(stage.cluster.kubectl, "delete", "crd", f"{kind}.{names.GROUP}")
    troubled, text = await until_ready_says(port, "Kopf", said=True)
    await asyncio.to_thread(disasters.make_kinds, stage.cluster)
    well, _ = await until_ready_says(port, "Kopf", said=False)

    assert (troubled, well) == (200, 200)
    assert "Kopf ended: " in text and "may be out of date" in text
