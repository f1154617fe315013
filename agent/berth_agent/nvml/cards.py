"""One card, read through NVML: what it is, where it sits, and how it is cut.

What cannot change while the library is open (name, compute capability, place) is asked
for once for each uuid; everything else is asked for at every look. A card must tell its
uuid, name and memory, or it is lost: nothing could be given out of it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

import pynvml

from berth_agent import probe, sysfs
from berth_agent.nvml import calls, links, mig, vitals
from berth_crds import schema_limits

# Cards that only drive a display: the driver lists them, but no workload may have them.
DISPLAYS: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})


@dataclasses.dataclass(slots=True)
class Facts:
    """What cannot change while the library is open; the last two are found out when needed."""

    model: str
    compute_capability: str
    module_id: int | None
    place: probe.Place
    too_hot: int | None
    remotes: dict[int, str | None] = dataclasses.field(default_factory=dict)
    profiles: mig.Profiles | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One card that answered, still without its links, and where its NVLinks lead."""

    handle: Any
    card: probe.Card
    ends: links.Ends

    @property
    def end(self) -> links.End:
        """Give what the links need to know of the card."""
        return links.End(self.card.uuid, self.card.place, self.ends)


def address(handle: Any) -> str | None:
    """Ask a card for its PCI address; None where there is none."""
    pci = calls.known(pynvml.nvmlDeviceGetPciInfo, handle)
    return links.address(pci) if pci else None


def facts(handle: Any, address: str | None, kernel: sysfs.Kernel) -> Facts:
    """Ask a card for what cannot change, and the kernel where its address is."""
    capability = calls.known(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Facts(
        model=probe.model(calls.ask(pynvml.nvmlDeviceGetName, handle)),
        compute_capability=_capability(capability),
        module_id=_module_id(handle),
        place=kernel.place(address) if address else probe.Place(),
        too_hot=vitals.too_hot(handle),
    )


def uuid(handle: Any) -> str:
    """Ask a card for its identity; what cannot be one raises `calls.Failed`."""
    found: str = calls.ask(pynvml.nvmlDeviceGetUUID, handle)
    if not schema_limits.UUID.matches(found):
        raise calls.Failed("nvmlDeviceGetUUID", calls.UNREADABLE, "the answer is no uuid")
    return found


def _capability(pair: Sequence[int] | None) -> str:
    text = ".".join(map(str, pair or ()))
    return text if schema_limits.CUDA_VERSION.matches(text) else ""


def _minor(handle: Any, index: int) -> int:
    """Ask for the minor. Without device files (WSL) there is none, and the index is as good."""
    found: int = calls.ask_or(index, pynvml.nvmlDeviceGetMinorNumber, handle)
    return found if 0 <= found <= schema_limits.LARGEST_MINOR else index


def _module_id(handle: Any) -> int | None:
    found = calls.known(pynvml.nvmlDeviceGetModuleId, handle)
    # What is not known is also told as a number that no board has.
    return found if found is not None and found <= schema_limits.LARGEST_MODULE_ID else None


def read(handle: Any, index: int, *, uuid: str, facts: Facts) -> Reading:
    """Read one card; a card that cannot be read raises `calls.Failed`."""
    memory = _memory(handle)
    card = probe.Card(
        uuid=uuid,
        minor=_minor(handle, index),
        index=index,
        model=facts.model,
        memory=memory,
        compute_capability=facts.compute_capability,
        module_id=facts.module_id,
        place=facts.place,
        mig=mig.read(handle, total=memory, profiles=_profiles(handle, facts)),
        health=None,
        vitals=vitals.read(handle, too_hot=facts.too_hot),
    )
    return Reading(handle, card, links.nvlinks(handle, _remote(handle, facts)))


def _memory(handle: Any) -> int:
    total: int = calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle).total
    if not 0 < total <= schema_limits.LARGEST_MEMORY:
        raise calls.Failed("nvmlDeviceGetMemoryInfo", calls.UNREADABLE, "the card has no memory")
    return total


def _profiles(handle: Any, facts: Facts) -> Callable[[], mig.Profiles]:
    def profiles() -> mig.Profiles:
        if facts.profiles is None:
            facts.profiles = mig.profile_names(handle)
        return facts.profiles

    return profiles


def _remote(handle: Any, facts: Facts) -> Callable[[int], str | None]:
    def remote(number: int) -> str | None:
        if facts.remotes.get(number) is None:
            facts.remotes[number] = links.remote_end(handle, number)
        return facts.remotes[number]

    return remote
