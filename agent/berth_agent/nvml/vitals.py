"""What one card measures just now, as far as it tells.

A reading that fails says nothing and costs the card nothing, unless it shows that the card is
gone: whether a card can be given out is found out by what it must tell, in `cards`.
"""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from berth_agent import probe
from berth_agent.nvml import calls
from berth_crds import vocabulary

Recovery = vocabulary.Recovery

# What the driver itself asks for, on drivers that do (R565 and newer).
RECOVERIES: Final = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: Recovery.NONE,
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: Recovery.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: Recovery.REBOOT,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: Recovery.DRAIN,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: Recovery.DRAIN,
    pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: Recovery.DRAIN,
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: Recovery.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: Recovery.REBOOT,
}

# Degrees that a card can have: what is not known is also told as a number.
PLAUSIBLE: Final = range(1, 200)

# The card is gone, and nothing else that it might answer counts.
GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


def read(handle: Any, *, too_hot: int | None) -> probe.Vitals:
    """Read one card; one that is gone raises `calls.Failed`."""
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    use = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return probe.Vitals(
        memory_reserved=memory.reserved if memory else None,
        memory_used=memory.used if memory else None,
        memory_free=memory.free if memory else None,
        utilization=use.gpu if use else None,
        memory_utilization=use.memory if use else None,
        power=_told(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit=_told(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        temperature=_temperature(handle),
        too_hot=too_hot,
        core_clock=_told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        memory_clock=_told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        errors_corrected=_errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        errors_uncorrected=_errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        rows=_rows(handle),
        retirement_pending=_retirement(handle),
        recovery=_recovery(handle),
    )


def too_hot(handle: Any) -> int | None:
    """Ask at how many degrees the hardware slows itself down."""
    found: int | None = _told(
        pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    )
    return found if found in PLAUSIBLE else None


def _told(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return calls.ask(call, *arguments)
    except calls.Failed as failure:
        if failure.code in GONE:
            raise
        return None


def _temperature(handle: Any) -> int | None:
    """Ask in the new way, and in the one of drivers older than it."""
    for call in (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature):
        found: int | None = _told(call, handle, pynvml.NVML_TEMPERATURE_GPU)
        if found is not None:
            return found if found in PLAUSIBLE else None
    return None


def _errors(handle: Any, kind: int) -> int | None:
    found: int | None = _told(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC)
    return found


def _rows(handle: Any) -> probe.Rows | None:
    found = _told(pynvml.nvmlDeviceGetRemappedRows, handle)
    if found is None:
        return None
    corrected, uncorrected, pending, failed = found
    return probe.Rows(corrected, uncorrected, bool(pending), bool(failed))


def _retirement(handle: Any) -> bool | None:
    found = _told(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    return None if found is None else bool(found)


def _recovery(handle: Any) -> vocabulary.Recovery | None:
    (field,) = _told(
        pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    ) or (None,)
    if field is None or field.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return RECOVERIES.get(_number(field))


def _number(field: Any) -> int:
    """Read a field's value by the type that it says it has."""
    word = {
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
    }.get(field.valueType, "ullVal")
    return int(getattr(field.value, word))
