"""One card, read through NVML: what it is, where it is, how it is divided, and what runs on it.

What cannot change while the library is open (name, compute capability, location) is read once for
each uuid, everything else for every sample (`measurements`, which says how to add a measurement; what is
published of a card besides is a field of `probe.Card`). A card without uuid, name or memory
is lost: nothing of it could be given out.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Final

import pynvml

from berth_agent import probe, sysfs
from berth_agent.nvml import calls, links, measurements, mig
from berth_crds import schema_limits, wire

# Cards that only drive a display: the driver lists them, but no workload may have them.
DISPLAYS: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})


@dataclasses.dataclass(slots=True)
class StaticFacts:
    """What cannot change while the library is open; the last two are read when needed."""

    model: str
    compute_capability: str
    module_id: int | None
    location: wire.Topology
    slowdown_temperature: int | None
    _nvlink_targets: dict[int, str | None] = dataclasses.field(default_factory=dict)
    _profiles: dict[int, tuple[int, str] | None] = dataclasses.field(default_factory=dict)

    def nvlink_target(self, handle: Any, number: int) -> str | None:
        """Return the target of one NVLink; while it is unknown, the driver is asked again."""
        if self._nvlink_targets.get(number) is None:
            self._nvlink_targets[number] = links.nvlink_target(handle, number)
        return self._nvlink_targets[number]

    def profiles(self, handle: Any) -> mig.Profiles:
        """Return the names of the card's GPU instance profiles; those that failed are asked for again."""
        for number in mig.PROFILE_NUMBERS:
            if number not in self._profiles:
                # An instance whose profile has no name here gets one: no failure costs the card.
                with contextlib.suppress(calls.CallFailed):
                    self._profiles[number] = mig.profile(handle, number)
        return dict(found for found in self._profiles.values() if found)


def address(handle: Any) -> str | None:
    """Return the PCI address of a card; None where there is none."""
    pci = calls.ask_or_none(pynvml.nvmlDeviceGetPciInfo, handle)
    return links.address(pci) if pci else None


def facts(handle: Any, address: str | None, kernel: sysfs.Kernel) -> StaticFacts:
    """Read from a card what cannot change, and its location from the kernel."""
    return StaticFacts(
        model=probe.model_name(calls.ask(pynvml.nvmlDeviceGetName, handle)),
        compute_capability=_capability(calls.ask_or_none(pynvml.nvmlDeviceGetCudaComputeCapability, handle)),
        module_id=_module_id(handle),
        location=kernel.location(address) if address else probe.UNKNOWN_LOCATION,
        slowdown_temperature=measurements.slowdown_temperature(handle),
    )


def uuid(handle: Any) -> str:
    """Return the uuid of a card; raise `CallFailed` for one that the schema does not take."""
    found: str = calls.ask(pynvml.nvmlDeviceGetUUID, handle)
    if not schema_limits.UUID.matches(found):
        raise calls.CallFailed("nvmlDeviceGetUUID", calls.UNREADABLE, "the answer is no uuid")
    return found


def _capability(pair: Sequence[int] | None) -> str:
    text = ".".join(map(str, pair or ()))
    return text if schema_limits.CUDA_VERSION.matches(text) else ""


def _minor(handle: Any, index: int) -> int:
    """Return the minor, or the index where there is none because there are no device files (WSL)."""
    found: int = calls.ask_or(index, pynvml.nvmlDeviceGetMinorNumber, handle)
    return found if 0 <= found <= schema_limits.LARGEST_MINOR else index


def _module_id(handle: Any) -> int | None:
    found = calls.ask_or_none(pynvml.nvmlDeviceGetModuleId, handle)
    # An unknown one may also be reported as a number that no board has.
    return found if found is not None and found <= schema_limits.LARGEST_MODULE_ID else None


def read(handle: Any, index: int, *, uuid: str, facts: StaticFacts) -> links.CardReading:
    """Read one card, or raise `CallFailed`."""
    memory = _memory(handle)
    card = probe.Card(
        uuid=uuid,
        minor=_minor(handle, index),
        index=index,
        model=facts.model,
        memory=memory,
        compute_capability=facts.compute_capability,
        module_id=facts.module_id,
        location=facts.location,
        mig=mig.read(handle, total=memory, profiles=functools.partial(facts.profiles, handle)),
        health=None,
        measurements=measurements.read(handle, slowdown_temperature=facts.slowdown_temperature),
    )
    return links.CardReading(
        handle, card, links.nvlinks(handle, functools.partial(facts.nvlink_target, handle))
    )


def _memory(handle: Any) -> int:
    total: int = calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle).total
    if not 0 < total <= schema_limits.LARGEST_MEMORY:
        raise calls.CallFailed("nvmlDeviceGetMemoryInfo", calls.UNREADABLE, "the card has no memory")
    return total


def processes(handle: Any, card: probe.Card) -> tuple[probe.Process, ...]:
    """Return the processes that compute on a card or its MIG instances, each once, or raise `CallFailed`.

    Those behind MPS are among them. Processes that only draw are left out: a display server uses a
    little of every card, which is still free. To an agent that may not administer MIG, the driver
    reports the processes of a card in MIG mode without their instances; then they count for the card.
    """
    instances = {(each.gi, each.ci): each.uuid for each in card.mig.instances} if card.mig else {}
    found = [
        *calls.ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle),
        *calls.ask_or([], pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle),
    ]
    listed = {
        (process.pid, uuid): probe.Process(process.pid, uuid, process.usedGpuMemory)
        for process in reversed(found)
        for uuid in (instances.get((process.gpuInstanceId, process.computeInstanceId), card.uuid),)
    }
    return tuple(listed[key] for key in sorted(listed))
