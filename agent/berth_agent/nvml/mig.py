"""MIG mode of one card and the instances it is cut into.

MIG devices are numbered with gaps: a destroyed one leaves its number free. The name of a profile is
the driver's own where it reports it, and otherwise follows from slices and memory by NVIDIA's rule;
both read `1g.10gb`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pynvml

from berth_agent.nvml import calls
from berth_crds import catalog, schema_limits, wire

Profiles = Mapping[int, str]  # Names of GPU instance profiles by the card's own id of them.
PROFILE_NUMBERS: Final = range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT)

_NAME: Final = re.compile(r"(?:MIG )?([1-9]g\.[1-9][0-9]*gb(?:[+-][a-z]+(?:\.[a-z]+)*)*)")
_EIGHTHS: Final = 8
# Errors for an instance that the driver has just listed and that is gone by now.
GOING: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})
NO_DEVICE: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND})
# Profile and placement are reported only to processes that may administer MIG.
NOT_SHOWN: Final = calls.ABSENT | {pynvml.NVML_ERROR_NO_PERMISSION}
# A driver that is older than the bindings knows fewer profiles than they have numbers.
_NO_PROFILE: Final = calls.ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT}


def read(handle: Any, *, total: int, profiles: Callable[[], Profiles]) -> wire.Mig | None:
    """Return MIG mode and instances of a card with `total` bytes; None where it cannot do MIG."""
    if (mode := calls.ask_or_none(pynvml.nvmlDeviceGetMigMode, handle)) is None:
        return None
    # The second is the mode after the next reset, which does not matter yet.
    current, _ = mode
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return wire.Mig(enabled=False)
    parts = tuple(_parts(handle))
    names = profiles() if parts else {}
    # One that was destroyed meanwhile must not fail the card.
    read = (calls.ask_or(None, _instance, handle, part, total, names, expected=GOING) for part in parts)
    found = {one.uuid: one for one in read if one and _is_valid(one)}
    return wire.Mig(enabled=True, instances=tuple(found.values()))


def _is_valid(one: wire.MigInstance) -> bool:
    """Whether the schema takes an instance."""
    numbers = (
        one.gi is None
        or one.ci is None
        or (0 <= one.gi <= schema_limits.LARGEST_MIG_ID and 0 <= one.ci <= schema_limits.LARGEST_MIG_ID)
    )
    words = schema_limits.UUID.matches(one.uuid) and schema_limits.MIG_PROFILE.matches(one.profile)
    return bool(numbers and words and 0 < one.memory <= schema_limits.LARGEST_MEMORY)


def profile(handle: Any, number: int) -> tuple[int, str] | None:
    """Return id and name of a GPU instance profile by its number, or raise `CallFailed`.

    None for one that the card or its driver does not have, or that has no usable name.
    """
    found = calls.ask_or(
        None, pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number, expected=_NO_PROFILE
    )
    match = _NAME.fullmatch(found.name) if found else None
    return (found.id, match.group(1)) if match else None


def _parts(handle: Any) -> Iterator[Any]:
    """Yield the MIG devices of a card."""
    count = calls.ask_or(0, pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    for number in range(min(count, schema_limits.MOST_INSTANCES)):
        part = calls.ask_or(
            None, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number, expected=NO_DEVICE
        )
        if part is not None:
            yield part


def _instance(handle: Any, part: Any, total: int, names: Profiles) -> wire.MigInstance:
    gi = calls.ask(pynvml.nvmlDeviceGetGpuInstanceId, part)
    shape = calls.ask(pynvml.nvmlDeviceGetAttributes_v2, part)
    info = calls.ask_or(None, _gpu_instance, handle, gi, expected=NOT_SHOWN)
    whole = names.get(info.profileId) if info else None
    return wire.MigInstance(
        uuid=calls.ask(pynvml.nvmlDeviceGetUUID, part),
        profile=_cut(whole or name(shape, total), shape),
        memory=shape.memorySizeMB * catalog.MIB,
        gi=gi,
        ci=calls.ask(pynvml.nvmlDeviceGetComputeInstanceId, part),
        placement=_placement(info),
    )


def _gpu_instance(handle: Any, gi: int) -> Any:
    """Return profile and placement of a GPU instance, or raise `CallFailed`."""
    return calls.ask(
        pynvml.nvmlGpuInstanceGetInfo, calls.ask(pynvml.nvmlDeviceGetGpuInstanceById, handle, gi)
    )


def _placement(info: Any) -> wire.MigPlacement | None:
    if (
        info is None
        or not info.placement.size
        or info.placement.start + info.placement.size > schema_limits.MOST_SLICES
    ):
        return None
    return wire.MigPlacement(info.placement.start, info.placement.size)


def name(shape: Any, total: int) -> str:
    """Return the name of a GPU instance by its slices and its share of memory, as NVIDIA's tools do."""
    eighths = math.ceil(shape.memorySizeMB * catalog.MIB * _EIGHTHS / total)
    gib = round(eighths / _EIGHTHS * math.ceil(total / catalog.GIB))
    return f"{shape.gpuInstanceSliceCount}g.{max(gib, 1)}gb"


def _cut(whole: str, shape: Any) -> str:
    """Return the name with the compute slices before it where they are not all of the GPU instance's."""
    cut = shape.computeInstanceSliceCount
    return whole if cut == shape.gpuInstanceSliceCount else f"{cut}c.{whole}"
