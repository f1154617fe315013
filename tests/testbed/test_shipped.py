"""What the project ships is installed whatever state the server is in."""

from pathlib import Path
from typing import Any, Final

from testbed import cluster as clusters
from testbed import shipped

NEW: Final = None  # What a kind has in place of conditions for a moment.
NAMED: Final = [{"type": "NamesAccepted", "status": "True"}]
KNOWN: Final = [*NAMED, {"type": "Established", "status": "True"}]


class SlowServer(clusters.Cluster):
    """A server that takes its time with two kinds."""

    def __init__(self) -> None:
        self.answers: list[list[Any]] = [[NEW, NEW], [KNOWN, NEW], [KNOWN, NAMED], [KNOWN, KNOWN]]
        self.applied: list[Path | str] = []

    def apply(self, *sources: Path | str) -> None:
        """Note what is applied."""
        self.applied += sources

    def read(self, path: str) -> Any:
        """Return the kinds as they are now."""
        assert path == shipped.KINDS
        return {"items": [{"status": {"conditions": one}} for one in self.answers.pop(0)]}


def test_kinds_are_waited_for_while_they_have_no_conditions_yet() -> None:
    """All kinds are to be established, and one without any condition is no error."""
    server = SlowServer()

    shipped.install_kinds(server)

    assert (server.applied, server.answers) == ([shipped.ROOT / "crds"], [])
