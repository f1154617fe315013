"""Whether a card takes programs of its own, or only those that come by way of MPS."""

from collections.abc import Sequence

import pynvml


def make_exclusive(uuids: Sequence[str]) -> str:
    """Let nothing but the server of MPS on these cards; return what failed, as a clause, empty if nothing."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"NVML: {error}"
    try:
        for uuid in uuids:
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                pynvml.nvmlDeviceSetComputeMode(handle, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
            except pynvml.NVMLError as error:
                return f"the compute mode of {uuid} cannot be set: {error}"
    finally:
        pynvml.nvmlShutdown()
    return ""
