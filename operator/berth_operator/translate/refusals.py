"""What is wrong with a request, as data with a sentence for people.

Reading goes through many small functions, and the first of them that cannot go on knows
best what to write instead. `Refused` carries its sentence up to the function that reads
the container or the annotation; it never leaves `translate`. Sentences quote what the author
of a pod wrote, so all of them are made one clean line here.
"""

from typing import Final, NoReturn

from berth_crds import text
from berth_operator.scheduling.decisions import Reason, Refusal

LONGEST_SHOWN: Final = 63


class Refused(Exception):
    """Carries a refusal up to where a container or an annotation is read."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def invalid(detail: str) -> Refusal:
    """Refuse what makes no sense."""
    return Refusal(Reason.INVALID_REQUEST, detail=text.line(detail))


def unsupported(detail: str) -> Refusal:
    """Refuse what makes sense and is not served."""
    return Refusal(Reason.UNSUPPORTED_REQUEST, detail=text.line(detail))


def refuse(detail: str) -> NoReturn:
    """Stop reading: this makes no sense."""
    raise Refused(invalid(detail))


def decline(detail: str) -> NoReturn:
    """Stop reading: this is not served."""
    raise Refused(unsupported(detail))


def shown(value: object) -> str:
    """Show what people wrote, in one line that is not too long."""
    return text.line(str(value), most=LONGEST_SHOWN)
