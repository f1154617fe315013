"""What a status writer would have told by event, and what it is given to tell."""

from berth_crds.client import api
from berth_operator.engine import rate_limiter
from berth_operator.kube import events
from berth_operator.scheduling.decisions import Reason
from support import clock


class Notes(events.EventRecorder):
    """Notes that are kept instead of posted."""

    def __init__(self, session: api.Api) -> None:
        super().__init__(session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="test")
        self.told: list[tuple[str, str]] = []

    def record(self, note: events.Event) -> None:
        """Keep a note."""
        self.told.append((note.reason, note.message))


def waits(*reasons: Reason) -> str:
    """Say no on a node for each reason."""
    return f"No node fits: {', '.join(reasons)}"
