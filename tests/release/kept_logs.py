"""Keeps what the operators of a bed say: of one that has ended, the API server has nothing any more."""

from pathlib import Path
from typing import Final

from release import bed as beds
from testbed import binaries, processes

OPERATOR: Final = "berth-operator-"
LINES: Final = 40


class KeptLogs:
    """Follows the logs of all operators that were ever seen to run, each in a file."""

    def __init__(self, bed: beds.Bed, folder: Path) -> None:
        self._bed = bed
        self._folder = folder
        self._programs: dict[str, processes.Program] = {}

    def look(self) -> None:
        """Begin to follow the operators that have started since the last look."""
        kubectl = binaries.locate("kubectl")
        assert kubectl, "the cluster was started with it"
        for name, pod in self._bed.pods().items():
            running = pod["status"].get("phase") == "Running"
            if running and name.startswith(OPERATOR) and name not in self._programs:
                where = ("--kubeconfig", self._bed.cluster.admin_kubeconfig, "-n", beds.NAMESPACE)
                words = (kubectl.path, "logs", "--follow", name, *where)
                self._programs[name] = processes.start(name, words, log=self._folder / f"{name}.log")

    def tails(self) -> str:
        """Return what all of them said last."""
        return "\n\n".join(
            f"{name} said:\n{processes.tail(one.log, lines=LINES)}" for name, one in self._programs.items()
        )

    def close(self) -> None:
        """Follow none any more."""
        for one in self._programs.values():
            one.kill()
