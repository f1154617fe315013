"""The measurements of one card, as far as it supports them.

A measurement that fails stays empty, and has no effect on the card unless the error says that the
card is gone. To add one, add a field to `probe.Measurements`, read it here, and give it a `Measure` in
`metrics`.
"""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from berth_agent import probe
from berth_agent.nvml import calls
from berth_crds.vocabulary import Recovery

# What the driver itself requests (R565 and newer).
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

# Degrees that a card can have: an unknown temperature is also reported as a number.
PLAUSIBLE_DEGREES: Final = range(1, 200)

# The card is gone; nothing else that it answers counts.
GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


def read(handle: Any, *, slowdown_temperature: int | None) -> probe.Measurements:
    """Return the measurements of a card, or raise `CallFailed` for one that is gone."""
    memory = _ask_or_none(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    use = _ask_or_none(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return probe.Measurements(
        memory_reserved=memory.reserved if memory else None,
        memory_used=memory.used if memory else None,
        memory_free=memory.free if memory else None,
        utilization=use.gpu if use else None,
        memory_utilization=use.memory if use else None,
        encoder_utilization=_part_of_time(pynvml.nvmlDeviceGetEncoderUtilization, handle),
        decoder_utilization=_part_of_time(pynvml.nvmlDeviceGetDecoderUtilization, handle),
        power=_ask_or_none(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit=_ask_or_none(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        temperature=_temperature(handle),
        slowdown_temperature=slowdown_temperature,
        core_clock=_ask_or_none(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        memory_clock=_ask_or_none(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        errors_corrected=_ask_or_none(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        errors_uncorrected=_ask_or_none(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        remapped_rows=_rows(handle),
        retirement_pending=_retirement(handle),
        recovery=_recovery(handle),
    )


def slowdown_temperature(handle: Any) -> int | None:
    """Return at how many degrees the hardware slows itself down."""
    found: int | None = _ask_or_none(
        pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    )
    return found if found in PLAUSIBLE_DEGREES else None


def _ask_or_none(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return calls.ask(call, *arguments)
    except calls.CallFailed as failure:
        if failure.code in GONE:
            raise
        return None


def _part_of_time(call: Callable[..., Any], handle: Any) -> int | None:
    """Return in how many percent of the time something was used; the driver says of which time, too."""
    found = _ask_or_none(call, handle)
    return None if found is None else int(found[0])


def _temperature(handle: Any) -> int | None:
    """Return the temperature, by the new call or that of older drivers."""
    for call in (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature):
        found: int | None = _ask_or_none(call, handle, pynvml.NVML_TEMPERATURE_GPU)
        if found is not None:
            return found if found in PLAUSIBLE_DEGREES else None
    return None


def _rows(handle: Any) -> probe.RemappedRows | None:
    if (found := _ask_or_none(pynvml.nvmlDeviceGetRemappedRows, handle)) is None:
        return None
    corrected, uncorrected, pending, failed = found
    return probe.RemappedRows(corrected, uncorrected, bool(pending), bool(failed))


def _retirement(handle: Any) -> bool | None:
    found = _ask_or_none(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    return None if found is None else bool(found)


def _recovery(handle: Any) -> Recovery | None:
    (field,) = _ask_or_none(
        pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    ) or (None,)
    if field is None or field.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return RECOVERIES.get(_number(field))


def _number(field: Any) -> int:
    """Return the value of a field by its type."""
    member = {
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
    }.get(field.valueType, "ullVal")
    return int(getattr(field.value, member))
