"""How many pods of each controller are on which nodes: what spread by default is counted from.

Nothing is counted until somebody asks; then each pod that comes, goes or changes counts at once.
"""

from collections.abc import Callable, Iterable, Mapping

from berth_operator.scheduling.holds import Hold


class ControllerIndex:
    """The rows of the pods of each controller; `holds` returns all pods with their rows."""

    def __init__(self, holds: Callable[[], Iterable[tuple[Hold, int]]]) -> None:
        self._holds = holds
        # By controller, how many on each row; None until asked.
        self._rows: dict[str, dict[int, int]] | None = None

    def count(self, hold: Hold, row: int, sign: int) -> None:
        """Count a pod of a row, or with -1 no more; one that is being deleted does not count."""
        if self._rows is None or hold.leaving or not hold.controller:
            return
        rows = self._rows.setdefault(hold.controller, {})
        rows[row] = rows.get(row, 0) + sign
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[hold.controller]

    def rows(self, controller: str) -> Mapping[int, int]:
        """Return on which rows how many pods of a controller are."""
        if self._rows is None:
            self._rows = {}
            for hold, row in self._holds():
                self.count(hold, row, 1)
        return self._rows.get(controller, {})
