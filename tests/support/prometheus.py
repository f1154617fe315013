"""A small server that answers as Prometheus' HTTP API does, for the queries that Berth asks.

It knows no PromQL but the one form of these queries: any other is refused, as Prometheus refuses what it
cannot parse. Its time is its own, and has nothing to do with that of whoever asks.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aiohttp import web

from support import builders, stub

NOW: Final = 1.7e9
LOOKBACK_SECONDS: Final = 300.0  # A series whose last sample is older has no value.
SERIES: Final = r'(\w+)\{UUID!="",GPU_I_ID=""\}'
QUERY: Final = re.compile(
    r"(max|min) by \(UUID, job, instance, berth\) \("
    rf'label_replace\({SERIES}, "berth", "value", "", ""\)'
    rf' or label_replace\(timestamp\({SERIES}\), "berth", "time", "", ""\)\)'
)
GROUPED: Final = ("UUID", "job", "instance")

Figure = tuple[Mapping[str, str], float]


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """The last sample of a series."""

    name: str
    labels: Mapping[str, str]
    value: float
    time: float


class Prometheus:
    """What Prometheus has scraped, and what it was asked."""

    def __init__(self) -> None:
        self.now = NOW
        self.series: list[Series] = []
        self.queries: list[str] = []

    def scrape(
        self, uuid: str, value: float, *, name: str = "DCGM_FI_DEV_GPU_UTIL", age: float = 0.0, **labels: str
    ) -> None:
        """Have a sample of a card, this many seconds old."""
        target = {"job": "dcgm", "instance": "10.0.0.1:9400", "Hostname": "n1", "gpu": "0"}
        self.series.append(Series(name, target | {"UUID": uuid} | labels, value, self.now - age))

    def scrape_node(self, node: str, *values: float, age: float = 0.0, **rest: str) -> None:
        """Have samples of the first cards of a node."""
        for minor, value in enumerate(values):
            self.scrape(builders.uuid(node, minor), value, age=age, **rest)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a query, which is counted."""
        query = request.query.get("query", "")
        self.queries.append(query)
        match = QUERY.fullmatch(query)
        if match is None or match[2] != match[3]:
            error = {"status": "error", "errorType": "bad_data", "error": f"parse error: {query}"}
            return await stub.thing(error, code=400)(request)
        found = [series for series in self.series if self._is_meant(series, match[2])]
        result = [
            *self._grouped("value", [(series.labels, series.value) for series in found], match[1]),
            *self._grouped("time", [(series.labels, series.time) for series in found], match[1]),
        ]
        data = {"resultType": "vector", "result": result}
        return await stub.thing({"status": "success", "data": data})(request)

    def _is_meant(self, series: Series, name: str) -> bool:
        labels = series.labels
        fresh = self.now - series.time < LOOKBACK_SECONDS
        return series.name == name and bool(labels.get("UUID")) and not labels.get("GPU_I_ID") and fresh

    def _grouped(self, mark: str, figures: list[Figure], chosen: str) -> Iterator[dict[str, Any]]:
        groups: dict[tuple[str, ...], list[float]] = {}
        for labels, figure in figures:
            groups.setdefault(tuple(labels.get(name, "") for name in GROUPED), []).append(figure)
        for group, values in groups.items():
            named = {name: value for name, value in zip(GROUPED, group, strict=True) if value}
            value = max(values) if chosen == "max" else min(values)
            yield {"metric": named | {"berth": mark}, "value": [self.now, _text(value)]}


def _text(value: float) -> str:
    return f"{value:.17g}".replace("inf", "+Inf").replace("nan", "NaN")
