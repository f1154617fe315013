"""Berth's own programs as processes, under their own service accounts and shipped roles.

What the demo and the end-to-end tests have in common: install what the project ships,
start an operator or an agent, end it politely or by a crash. No process outlives us.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from testbed import __main__ as tool
from testbed import cluster as clusters
from testbed import processes

ROOT: Final = Path(__file__).resolve().parents[2]
SYSTEM: Final = "berth-system"


@dataclasses.dataclass(slots=True)
class Fleet:
    """The programs of one cluster."""

    cluster: clusters.Cluster
    programs: list[processes.Program] = dataclasses.field(default_factory=list)

    def install(self) -> None:
        """Apply crds/ and manifests/, as a user would."""
        tool.install(self.cluster)

    def operator(
        self, *flags: str, name: str = "berth-operator", env: Mapping[str, str] | None = None
    ) -> processes.Program:
        """Start an operator, perhaps with an environment of its own."""
        words = ["--name", name, *flags]
        return self._start("berth_operator", "berth-operator", words, name=name, env=env)

    def agent(self, *nodes: tuple[str, str], flags: Sequence[str] = (), name: str = "") -> processes.Program:
        """Start one agent process that speaks for these nodes, given as name and shape."""
        words = [word for node, shape in nodes for word in ("--simulated-node", f"{node}={shape}")]
        return self._start(
            "berth_agent", "berth-agent", [*words, *flags], name=name or f"agent-{nodes[0][0]}"
        )

    def _start(
        self,
        module: str,
        account: str,
        words: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
    ) -> processes.Program:
        kubeconfig = self.cluster.kubeconfig_for(SYSTEM, account)
        program = processes.start(
            name,
            [sys.executable, "-m", module, "--kubeconfig", kubeconfig, *words],
            log=self.cluster.directory / f"{name}.log",
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )
        self.programs = [one for one in self.programs if one.alive()] + [program]
        return program
