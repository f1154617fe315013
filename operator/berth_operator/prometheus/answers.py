"""From the answer of Prometheus to samples by card.

An answer may have very many series. They are decoded in pieces, between which pods are bound, and one
that is odd costs only itself.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import msgspec

from berth_crds import text
from berth_crds.client import decoding, errors
from berth_operator.engine.sampled_loads import Sample
from berth_operator.prometheus import faults, queries

T = TypeVar("T")
AT_ONCE: Final = 1000  # Series, or cards.
MOST_SERIES: Final = 250_000  # Of one metric: two for each card of 15,000 nodes with eight.
COMMAS: Final = 6  # In a series: between its labels, and around and in its value.
LONGEST_UUID: Final = 64  # Characters of the uuid of a card.
LONGEST_REASON: Final = 200
ERROR: Final = "error"
VECTOR: Final = "vector"
# Clocks of the scraped nodes may be ahead of that of Prometheus.
MOST_AHEAD_SECONDS: Final = 1.0

Target = tuple[str, str, str]  # The uuid of a card, and who was scraped for it.


class _Data(msgspec.Struct):
    kind: str = msgspec.field(default="", name="resultType")
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    kind: str = msgspec.field(default="", name="errorType")
    error: str = ""


class _Labels(msgspec.Struct, gc=False):
    uuid: str = msgspec.field(name="UUID")
    mark: str = msgspec.field(name=queries.MARK)
    job: str = ""
    instance: str = ""


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: tuple[float, str]  # When the query was answered, and the value or the time of the sample.


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_RESULT: Final = msgspec.json.Decoder(list[msgspec.Raw])
_SERIES: Final = msgspec.json.Decoder(_Series)


async def read(body: bytes, asked: float) -> dict[str, Sample]:
    """Return the newest sample of each card in the answer to a query that was sent then, or raise `Fault`."""
    values: dict[Target, float] = {}
    ages: dict[Target, float] = {}
    found: dict[str, Sample] = {}
    async for piece in _in_pieces(_series_of(body)):
        for raw in piece:
            _read_series(raw, values, ages)
    async for targets in _in_pieces(list(values)):
        for target in targets:
            if (age := ages.get(target)) is not None:
                _add(found, target[0], Sample(values[target], asked - age))
    return found


def refusal(body: bytes) -> faults.QueryRefused | None:
    """Return why Prometheus refuses a query; None where the body does not come from Prometheus."""
    try:
        answer = _decode(_ANSWER, body)
    except faults.Fault:
        return None
    if answer.status != ERROR:
        return None
    why = text.line(f"{answer.kind}: {answer.error}", most=LONGEST_REASON)
    return faults.QueryRefused(f"it refuses the query: {why}")


def _series_of(body: bytes) -> list[msgspec.Raw]:
    answer = _decode(_ANSWER, body)
    if answer.data.kind != VECTOR:
        kind = text.quoted(answer.data.kind, most=LONGEST_REASON)
        raise refusal(body) or faults.Fault(f"its answer has the result type {kind} in place of vector")
    # A list takes an object for each element, however short: millions would fit into an answer of 32 MiB.
    if bytes(answer.data.result).count(b",") > COMMAS * MOST_SERIES:
        raise faults.Fault(f"its answer has more than {MOST_SERIES:,} series")
    return _decode(_RESULT, answer.data.result)


def _decode(decoder: msgspec.json.Decoder[T], body: Any) -> T:
    try:
        return decoding.decode(decoder, body)
    except errors.DECODE_ERRORS as error:
        why = text.line(str(error), most=LONGEST_REASON)
        raise faults.Fault(f"what it answers is not what Prometheus' API answers: {why}") from error


def _read_series(raw: msgspec.Raw, values: dict[Target, float], ages: dict[Target, float]) -> None:
    try:
        series = _SERIES.decode(raw)
        answered, value = series.value[0], float(series.value[1])
    except (*errors.DECODE_ERRORS, ValueError):
        return
    labels = series.metric
    if not 0 < len(labels.uuid) <= LONGEST_UUID or not math.isfinite(value):
        return
    target = labels.uuid, labels.job, labels.instance
    if labels.mark == queries.VALUE:
        values[target] = value
    elif labels.mark == queries.TIME and answered - value >= -MOST_AHEAD_SECONDS:
        ages[target] = max(0.0, answered - value)


def _add(found: dict[str, Sample], uuid: str, sample: Sample) -> None:
    """Add a sample of a card, unless there is a newer one."""
    known = found.get(uuid)
    if known is None or known.measured < sample.measured:
        found[uuid] = sample


async def _in_pieces(items: list[T]) -> AsyncIterator[list[T]]:
    """Yield some items at a time, and let others work between them."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
        await asyncio.sleep(0)
