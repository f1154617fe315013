"""Processes on the cards of a node, where its probe tells none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from berth_agent import probe


class Crowd:
    """Processes on cards, and a made tree of what the kernel tells of them."""

    def __init__(self, procfs: Path) -> None:
        self.procfs = procfs
        self.there: dict[int, probe.Process] = {}

    def enter(
        self, pid: int, uuid: str, *, cgroup: str = "/system.slice", memory: int = 1 << 30, command: str = ""
    ) -> None:
        """Have a process be on a card."""
        (self.procfs / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.procfs / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")
        (self.procfs / str(pid) / "comm").write_text(f"{command}\n")
        self.there[pid] = probe.Process(pid, uuid, memory)


@dataclass(frozen=True, slots=True)
class Crowded:
    """A probe with processes on its cards."""

    cards: probe.Probe
    crowd: Crowd

    def sample(self) -> probe.Outcome:
        """Look at the cards."""
        return self.cards.sample()

    def processes(self) -> tuple[probe.Process, ...]:
        """Look at the processes."""
        return tuple(self.crowd.there.values())
