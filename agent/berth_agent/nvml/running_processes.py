"""Which processes use one card, or a MIG instance of it.

These are processes that compute, including those behind MPS. Processes that only draw are left out:
a display server uses a little of every card, which is still free. To an agent that may not
administer MIG, the driver reports the processes of a card in MIG mode without their instances; then
they count for the card.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

from berth_agent import card_processes, probe
from berth_agent.nvml import calls


def on(handle: Any, card: probe.Card) -> Iterator[card_processes.Process]:
    """Yield the processes on a card, each once, or raise `CallFailed`."""
    instances = _instances(card)
    found = [
        *calls.ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle),
        *calls.ask_or([], pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle),
    ]
    listed = {
        (process.pid, uuid): card_processes.Process(process.pid, uuid, process.usedGpuMemory)
        for process in reversed(found)
        for uuid in (instances.get((process.gpuInstanceId, process.computeInstanceId), card.uuid),)
    }
    yield from (listed[key] for key in sorted(listed))


def _instances(card: probe.Card) -> Mapping[tuple[int | None, int | None], str]:
    return {(each.gi, each.ci): each.uuid for each in card.mig.instances} if card.mig else {}
