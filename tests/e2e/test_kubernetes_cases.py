"""Kubernetes' own scheduling tests, by meaning: each is played, and ends as the page says."""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from e2e import predicate_cases, preemption_cases, provisioner, storage_cases
from e2e.kubernetes_bed import Bed, Missed
from e2e.stage import Stage

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
PAGE: Final = (MANIFESTS / "conformance.md").read_text()
CASES: Final = predicate_cases.CASES | storage_cases.CASES | preemption_cases.CASES
PASSES: Final = "passes"
NOT_YET: Final = "not yet: "
NOT_PLAYED: Final = "not played: "
MISSED_SECONDS: Final = 3.0  # How long a pod is waited for that is not placed yet.


def listed() -> dict[str, str]:
    """Return what the page says of each case."""
    rows = re.findall(r"^\| ([^|]*) \| `[^|]*` \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


@pytest.fixture
async def bed(stage: Stage) -> AsyncIterator[Bed]:
    """Yield a bed for one case."""
    async with provisioner.lent(stage) as storage, contextlib.AsyncExitStack() as end:
        bed = Bed(stage, storage)
        end.push_async_callback(bed.close)
        yield bed


@pytest.mark.usefixtures("leader")
@pytest.mark.parametrize("case", CASES)
async def test_a_case_ends_as_the_page_says(bed: Bed, case: str) -> None:
    """What passes is placed as Kubernetes' test wants it, and what does not yet is not."""
    if listed()[case] == PASSES:
        await CASES[case](bed)
        return
    bed.patience = MISSED_SECONDS
    with pytest.raises(Missed):
        await CASES[case](bed)


def test_the_page_lists_the_cases_in_order() -> None:
    """A case that is added stands there, and what stands there is played, or it says why not."""
    told = listed()

    assert [case for case in told if not told[case].startswith(NOT_PLAYED)] == list(CASES)
    assert all(one == PASSES or one.startswith((NOT_YET, NOT_PLAYED)) for one in told.values())
    assert len(re.findall(r"^\| ", PAGE, re.MULTILINE)) == len(told) + len(
        re.findall(r"^\|-", PAGE, re.MULTILINE)
    )


def test_the_page_is_found_from_the_limits_and_by_developers() -> None:
    """Both lead to it."""
    for page in ("limits.md", "developing.md"):
        assert "(conformance.md" in (MANIFESTS / page).read_text()
