"""What the tests of the edge to Prometheus share."""

from collections.abc import AsyncIterator

import pytest

from prometheus import polling
from prometheus.polling import Polling


@pytest.fixture
async def cards() -> AsyncIterator[Polling]:
    """Lend a poller of a node with two cards."""
    async with polling.polling() as found:
        yield found
