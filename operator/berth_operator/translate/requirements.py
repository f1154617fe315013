"""What a pod requires by keys of other projects, and Berth does not serve.

The keys, and the values of each that require nothing, are data of the contract.
"""

from collections.abc import Iterator
from typing import Final

from berth_crds import requirements
from berth_crds.aliases import Where
from berth_crds.text import line
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.translate import raw, refusals, resources
from berth_operator.translate.refusals import RefusalError

NOTHING: Final[tuple[object, ...]] = ("", None, [], {})


def faults(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for each key that requires what Berth does not serve."""
    meta = pod.metadata
    if requirements.KEYS.isdisjoint(meta.annotations) and requirements.KEYS.isdisjoint(meta.labels):
        return
    for row in requirements.REQUIREMENTS:
        texts = meta.labels if row.where is Where.LABEL else meta.annotations
        try:
            refusal = _refusal(row, texts.get(row.key, "").strip())
        except RefusalError as error:
            refusal = error.refusal
        if refusal:
            yield refusal


def _refusal(row: requirements.Requirement, text: str) -> Refusal | None:
    place = f"{row.where} {row.key}"
    required = _field(row, place, text) if row.fields else _word(row, text)
    if not text or not required:
        return None
    detail = f"{place}: {required} is required, which Berth does not serve; {row.instead}"
    return Refusal(Reason.UNSUPPORTED_CONSTRAINT, detail=line(detail))


def _word(row: requirements.Requirement, text: str) -> str:
    return "" if text in row.harmless else refusals.shown(text)


def _field(row: requirements.Requirement, place: str, text: str) -> str:
    """Return the first field of an object in JSON that requires something."""
    fields = resources.json_object(place, text) if text else {}
    for name, value in sorted(fields.items()):
        harmless = row.fields.get(name, frozenset())
        if value in NOTHING or harmless is requirements.ANYTHING:
            continue
        if not isinstance(value, str):
            return refusals.shown(name)
        if value not in harmless:
            return f"{refusals.shown(name)} {refusals.shown(value)}"
    return ""
