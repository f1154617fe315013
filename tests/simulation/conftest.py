"""What tests of the simulation share."""

from collections.abc import Iterator

import pytest

from berth_operator.simulation import pod_explanations


@pytest.fixture(scope="module")
def unhurried() -> Iterator[None]:
    """Let explanations end by their steps, not by the time that this machine takes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pod_explanations, "POD_SECONDS", 3600.0)
        patched.setattr(pod_explanations, "RUN_SECONDS", 3600.0)
        yield
