"""One call to NVML, and what its errors mean here.

There are three kinds of errors. "Not supported" is an answer: the card has no such thing, and the
field stays empty. Any other error of a card makes that one card lost, with the error as the reason.
An error of the library as a whole makes the source fail.
"""

import re
from collections.abc import Callable, Container
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

UNREADABLE: Final = -1  # Not an error of NVML: it answered, but not with text.

_CODE: Final = re.compile(r"NVML_ERROR_([A-Z_]+)")
_NAMES: Final = {
    code: "".join(word.capitalize() for word in match.group(1).split("_"))
    for name, code in vars(pynvml).items()
    if (match := _CODE.fullmatch(name))
}
_NAMES[pynvml.NVML_ERROR_UNKNOWN] = "UnknownError"  # "Unknown" alone reads as a verdict.

# Errors of the library as a whole: the reason, and a sentence that says what to do.
SOURCE_FAILURES: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "LibraryMissing",
        (
            "The library libnvidia-ml.so.1 is missing: this node has no NVIDIA driver,"
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
            " (or reboot) and restart the agent."
        ),
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "NoPermission",
        "The agent may not use the NVIDIA driver: its container lacks /dev/nvidiactl or the right to it.",
    ),
}


class CallFailed(Exception):
    """A call that failed; `reason` is one CamelCase word, the text of the error has no full stop."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(text.line(f"{call} failed: {words}"))
        self.code = code
        self.reason = _NAMES.get(code, "NvmlFailed")


def ask(call: Callable[..., T], *arguments: Any) -> T:
    """Return the answer to one call, or raise `CallFailed`."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        raise CallFailed(call.__name__, error.value, str(error)) from None
    except UnicodeDecodeError:
        raise CallFailed(call.__name__, UNREADABLE, "the answer is no text") from None


def ask_or(otherwise: T, call: Callable[..., T], *arguments: Any, expected: Container[int] = ABSENT) -> T:
    """Return the answer to a call, or to a function of several; `otherwise` after an expected error.

    Without `expected` these are the errors of a card that does not support it.
    """
    try:
        return ask(call, *arguments)
    except CallFailed as failure:
        if failure.code in expected:
            return otherwise
        raise


def ask_or_none(call: Callable[..., T], *arguments: Any) -> T | None:
    """Return the answer to one call, None where the card does not support it."""
    return ask_or(None, call, *arguments)


def ask_or_nothing(call: Callable[..., T], *arguments: Any) -> T | None:
    """Return the answer to one call, None where it fails for any reason."""
    try:
        return ask(call, *arguments)
    except CallFailed:
        return None


def source_failed(failure: CallFailed) -> probe.SourceFailed:
    """Return the failure of the library as a whole."""
    reason, sentence = SOURCE_FAILURES.get(failure.code, (failure.reason, f"NVML fails: {failure}."))
    return probe.SourceFailed(reason, sentence)
