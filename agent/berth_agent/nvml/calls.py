"""One call to NVML, and what its errors mean here.

NVML's errors are of three kinds. "Not supported" is an answer: the card has no such thing,
and the field stays absent. Anything else that a card answers makes that one card lost,
with the error as its reason. What the library answers as a whole makes the source fail.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pynvml

from berth_agent import probe
from berth_crds import text

T = TypeVar("T")

# The card or the driver has no such thing: too old, too small, or the question too new.
ABSENT: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)

UNREADABLE: Final = -1  # No error of NVML: what it answered is no text.

_CODE: Final = re.compile(r"NVML_ERROR_([A-Z_]+)")
_NAMES: Final = {
    code: "".join(word.capitalize() for word in match.group(1).split("_"))
    for name, code in vars(pynvml).items()
    if (match := _CODE.fullmatch(name))
}
_NAMES[pynvml.NVML_ERROR_UNKNOWN] = "UnknownError"  # "Unknown" alone reads as a verdict.

# Words for a library that fails as a whole: reason, and a sentence that says what to do.
SOURCES: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "LibraryMissing",
        (
            "The library libnvidia-ml.so.1 is not there: this node has no NVIDIA driver,"
            " or the agent's container does not get it."
        ),
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "DriverNotLoaded",
        "The NVIDIA kernel driver is not loaded.",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "VersionMismatch",
        (
            "The NVIDIA library and the kernel driver are of different versions: load the new driver"
            " (or reboot) and start the agent anew."
        ),
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "NoPermission",
        "The agent may not use the NVIDIA driver: its container lacks /dev/nvidiactl or the right to it.",
    ),
}


class Failed(Exception):
    """A call that gave no answer; `reason` is one CamelCase word, the message has no full stop."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(text.line(f"{call} failed: {words}"))
        self.code = code
        self.reason = _NAMES.get(code, "NvmlFailed")


def ask(call: Callable[..., T], *arguments: Any) -> T:
    """Make one call, or raise `Failed`."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        raise Failed(call.__name__, error.value, str(error)) from None
    except UnicodeDecodeError:
        raise Failed(call.__name__, UNREADABLE, "the answer is no text") from None


def ask_or(otherwise: T, call: Callable[..., T], *arguments: Any) -> T:
    """Make one call for something that a card need not have."""
    try:
        return ask(call, *arguments)
    except Failed as failure:
        if failure.code in ABSENT:
            return otherwise
        raise


def known(call: Callable[..., T], *arguments: Any) -> T | None:
    """Make one call for something that a card need not have; None where it does not."""
    return ask_or(None, call, *arguments)


def source_failed(failure: Failed) -> probe.SourceFailed:
    """Say that the library as a whole gives nothing."""
    reason, sentence = SOURCES.get(failure.code, (failure.reason, f"NVML gives nothing: {failure}."))
    return probe.SourceFailed(reason, sentence)
