"""Which processes use one card, or a MIG instance of it.

Asked for are processes that compute, those behind MPS included. Those that only draw are
left out: a display server has a little of every card of its machine, and nobody would say
that the cards are taken. Who may not administer MIG is told the processes of a card in MIG
mode without their instances; then they are the card's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

from berth_agent import card_processes, probe
from berth_agent.nvml import calls


def on(handle: Any, card: probe.Card) -> Iterator[card_processes.Process]:
    """List the processes on a card, each once; a card that cannot tell raises `calls.Failed`."""
    instances = _instances(card)
    found = [
        *calls.ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle),
        *calls.ask_or([], pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle),
    ]
    listed = {
        (each.pid, uuid): card_processes.Process(each.pid, uuid, each.usedGpuMemory)
        for each in reversed(found)
        for uuid in (instances.get((each.gpuInstanceId, each.computeInstanceId), card.uuid),)
    }
    yield from (listed[key] for key in sorted(listed))


def _instances(card: probe.Card) -> Mapping[tuple[int, int], str]:
    return {(each.gi, each.ci): each.uuid for each in card.mig.instances} if card.mig else {}
