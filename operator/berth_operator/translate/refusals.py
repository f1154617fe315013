"""What is wrong with a request, as data with a sentence for people.

Requests are read by many small functions, and the one that fails knows best what to write
instead. `RefusalError` carries its sentence up to the function that reads the container or the
annotation; it never leaves `translate`. Sentences quote what the author of a pod wrote, so each
is turned into one clean line here.
"""

from typing import Final, NoReturn

from berth_crds import text
from berth_operator.scheduling.decisions import Reason, Refusal

MAX_SHOWN: Final = 63


class RefusalError(Exception):
    """Carries a refusal up to the function that reads a container or an annotation."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def invalid(detail: str) -> Refusal:
    """Return the refusal of an invalid request."""
    return Refusal(Reason.INVALID_REQUEST, detail=text.line(detail))


def unsupported(detail: str) -> Refusal:
    """Return the refusal of a valid request that Berth does not serve."""
    return Refusal(Reason.UNSUPPORTED_REQUEST, detail=text.line(detail))


def refuse(detail: str) -> NoReturn:
    """Raise the refusal of an invalid request."""
    raise RefusalError(invalid(detail))


def decline(detail: str) -> NoReturn:
    """Raise the refusal of a valid request that Berth does not serve."""
    raise RefusalError(unsupported(detail))


def shown(value: object) -> str:
    """Return what people wrote in one line that is not too long."""
    return text.line(str(value), most=MAX_SHOWN)
