"""What can keep Prometheus from telling loads: the end of a sentence that begins with its address."""

from berth_crds import text


class Fault(Exception):
    """No loads come from Prometheus; the message says why, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(text.line(message))


class QueryRefused(Fault):
    """Prometheus answers, but not to this query."""
