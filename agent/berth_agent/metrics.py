"""The metrics of the agent for Prometheus: measurements of cards, their holders, and its own times.

The series are made at each scrape from the node views, so a card that left its node leaves no
measurement behind, only the count of its errors. Names and units of measurements are in the style of
NVIDIA's DCGM exporter; its exact names can be chosen instead, for existing dashboards. `MEASURES`
lists what is exported of a card; what is new there is a field of `probe.Measurements`, and is read in
`nvml.measurements`.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import core, registry

from berth_agent import probe
from berth_agent.node_view import NodeView
from berth_crds import catalog, vocabulary, wire

OWN: Final = "berth_dev_"
DCGM: Final = "DCGM_FI_DEV_"
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

LABELS: Final = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")

Number = float | None
Identity = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a card: its name in DCGM, its help text, and where it comes from."""

    name: str
    what: str
    read: Callable[[probe.Card, probe.Measurements], Number]
    is_counter: bool = False


def _in(unit: int, number: int | None) -> Number:
    return None if number is None else number / unit


def _rows(pick: Callable[[probe.RemappedRows], int]) -> Callable[[probe.Card, probe.Measurements], Number]:
    return lambda _, measurements: (
        None if measurements.remapped_rows is None else pick(measurements.remapped_rows)
    )


MEASURES: Final = (
    Measure("FB_TOTAL", "Memory of the card in MiB.", lambda card, _: _in(catalog.MIB, card.memory)),
    Measure(
        "FB_RESERVED",
        "Memory that the driver keeps for itself in MiB.",
        lambda _, measured: _in(catalog.MIB, measured.memory_reserved),
    ),
    Measure("FB_USED", "Memory in use in MiB.", lambda _, measured: _in(catalog.MIB, measured.memory_used)),
    Measure("FB_FREE", "Memory free in MiB.", lambda _, measured: _in(catalog.MIB, measured.memory_free)),
    Measure(
        "GPU_UTIL",
        "Part of the time in which something ran, in percent.",
        lambda _, measured: measured.utilization,
    ),
    Measure(
        "MEM_COPY_UTIL",
        "Part of the time in which memory was used, in percent.",
        lambda _, measured: measured.memory_utilization,
    ),
    Measure(
        "ENC_UTIL",
        "Part of the time in which the video encoder ran, in percent.",
        lambda _, measured: measured.encoder_utilization,
    ),
    Measure(
        "DEC_UTIL",
        "Part of the time in which the video decoder ran, in percent.",
        lambda _, measured: measured.decoder_utilization,
    ),
    Measure("POWER_USAGE", "Power in watts.", lambda _, measured: _in(1000, measured.power)),
    Measure(
        "POWER_MGMT_LIMIT",
        "Power that the card may take, in watts.",
        lambda _, measured: _in(1000, measured.power_limit),
    ),
    Measure("GPU_TEMP", "Temperature in degrees Celsius.", lambda _, measured: measured.temperature),
    Measure(
        "SLOWDOWN_TEMP",
        "Temperature at which the card slows itself down.",
        lambda _, measured: measured.slowdown_temperature,
    ),
    Measure("SM_CLOCK", "Clock of the multiprocessors in MHz.", lambda _, measured: measured.core_clock),
    Measure("MEM_CLOCK", "Clock of the memory in MHz.", lambda _, measured: measured.memory_clock),
    Measure(
        "ECC_SBE_VOL_TOTAL",
        "Errors in memory corrected since the driver was loaded.",
        lambda _, measured: measured.errors_corrected,
        is_counter=True,
    ),
    Measure(
        "ECC_DBE_VOL_TOTAL",
        "Errors in memory not corrected since the driver was loaded.",
        lambda _, measured: measured.errors_uncorrected,
        is_counter=True,
    ),
    Measure(
        "CORRECTABLE_REMAPPED_ROWS",
        "Rows of memory replaced for errors that could be corrected.",
        _rows(lambda rows: rows.corrected),
        is_counter=True,
    ),
    Measure(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Rows of memory replaced for errors that could not.",
        _rows(lambda rows: rows.uncorrected),
        is_counter=True,
    ),
    Measure(
        "ROW_REMAP_PENDING",
        "Whether a row waits for a reset to be replaced.",
        _rows(lambda rows: rows.pending),
    ),
    Measure("ROW_REMAP_FAILURE", "Whether a row could not be replaced.", _rows(lambda rows: rows.failed)),
)


class Collector(registry.Collector):
    """Makes the series of some node views."""

    def __init__(
        self, node_views: Iterable[NodeView], *, clock: Callable[[], float], dcgm: bool = False
    ) -> None:
        self._node_views = tuple(node_views)
        self._clock = clock
        self._dcgm = dcgm

    def collect(self) -> Iterator[core.Metric]:
        """Yield all series."""
        yield from (self._measured(measure) for measure in MEASURES)
        yield self._xids()
        if self._dcgm:
            yield self._last_xids()
        yield from self._health()
        yield self._holders()
        yield from self._agent()

    def _named(self, name: str) -> str:
        return f"{DCGM}{name}" if self._dcgm else f"{OWN}{name.lower()}"

    def _measured(self, measure: Measure) -> core.Metric:
        # The name of a counter gets a suffix that DCGM's names do not have.
        is_counter = measure.is_counter and not self._dcgm
        kind = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
        family = kind(self._named(measure.name), measure.what, labels=LABELS)
        found = (
            (identity(card, node_view.node), measure.read(card, card.measurements))
            for node_view, card in self._cards()
        )
        return _filled(family, ((labels, number) for labels, number in found if number is not None))

    def _cards(self) -> Iterator[tuple[NodeView, probe.Card]]:
        """Yield the cards that answered in the last sample of each node."""
        for node_view in self._node_views:
            for card in node_view.sample.answering_cards() if node_view.sample else ():
                yield node_view, card

    def _xids(self) -> core.Metric:
        family = core.CounterMetricFamily(
            f"{OWN}xid_errors",
            "Errors (XIDs) that the driver told, by their number.",
            labels=("UUID", "Hostname", "xid"),
        )
        found = (
            ((uuid, node_view.node, str(number)), count)
            for node_view in self._node_views
            for (uuid, number), count in sorted(node_view.xids.items())
        )
        return _filled(family, found)

    def _last_xids(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            f"{DCGM}XID_ERRORS",
            "The last error (XID) that the driver told of a card; 0 for none.",
            labels=LABELS,
        )
        found = (
            (identity(card, node_view.node), node_view.last_xids.get(card.uuid, 0))
            for node_view, card in self._cards()
        )
        return _filled(family, found)

    def _health(self) -> Iterator[core.Metric]:
        healthy = core.GaugeMetricFamily(
            f"{OWN}health",
            "1 if the last look found the card healthy, cordoned or not; 0 if it did not, or if it failed.",
            labels=("UUID", "Hostname"),
        )
        unhealthy = core.GaugeMetricFamily(
            f"{OWN}unhealthy",
            "1 for each card that is not healthy.",
            labels=("UUID", "Hostname", "reason", "xid", "recovery"),
        )
        for node_view in self._node_views:
            unhealthy_cards = {
                each.uuid: each
                for each in node_view.status.devices
                if each.health != vocabulary.Health.HEALTHY
            }
            answers = not _source_failed(node_view.status)
            for uuid in sorted(
                {each.uuid for each in node_view.sample.answering_cards()} | unhealthy_cards.keys()
                if node_view.sample
                else unhealthy_cards
            ):
                healthy.add_metric((uuid, node_view.node), answers and uuid not in unhealthy_cards)
            for uuid, card in sorted(unhealthy_cards.items()):
                unhealthy.add_metric(
                    (uuid, node_view.node, card.reason, str(card.xid or ""), card.recovery), 1
                )
        return iter((healthy, unhealthy))

    def _holders(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            f"{OWN}holder",
            "Who holds a card: its share of the card's compute in percent, for each container.",
            labels=("UUID", "Hostname", "namespace", "pod", "container"),
        )
        found = (
            ((uuid, node_view.node, *rest), share)
            for node_view in self._node_views
            for (uuid, *rest), share in sorted(_shares(node_view.gpupods()).items())
        )
        return _filled(family, found)

    def _agent(self) -> Iterator[core.Metric]:
        now = self._clock()
        ticks = core.SummaryMetricFamily(
            "berth_agent_tick_seconds",
            "Time from the start of a look until the API had taken what it found.",
            labels=("Hostname",),
        )
        ages = core.GaugeMetricFamily(
            "berth_agent_source_age_seconds",
            "Time since a source last answered: nvml, podresources, and api for what was published.",
            labels=("Hostname", "source"),
        )
        for node_view in self._node_views:
            ticks.add_metric((node_view.node,), node_view.ticks, node_view.tick_seconds)
            for source, moment in sorted(node_view.answered_at.items()):
                ages.add_metric((node_view.node, source), max(0.0, now - moment))
        return iter((ticks, ages))


def _filled(
    family: core.CounterMetricFamily | core.GaugeMetricFamily, found: Iterable[tuple[Identity, float]]
) -> core.Metric:
    """Return a family with these numbers, each with its labels."""
    for labels, number in found:
        family.add_metric(labels, number)
    return family


def text(collector: Collector) -> bytes:
    """Return all series in the format of Prometheus."""
    return prometheus_client.generate_latest(collector)


def identity(card: probe.Card, node: str) -> Identity:
    """Return the labels of a card, as in the DCGM exporter."""
    return (
        str(card.index),
        card.uuid,
        card.location.bus_id or "",
        f"nvidia{card.minor}",
        card.model,
        node,
    )


def _source_failed(status: wire.DeviceStatus) -> bool:
    kind, no = vocabulary.DeviceCondition.NVML_READY, vocabulary.Truth.FALSE
    return any(each.type == kind and each.status == no for each in status.conditions)


def _shares(pods: Iterable[wire.GpuPod]) -> Mapping[Identity, int]:
    """Return how much each container holds of each GPU; a GpuPod may name one twice."""
    ended = {vocabulary.PodPhase.SUCCEEDED, vocabulary.PodPhase.FAILED}
    found: collections.Counter[Identity] = collections.Counter()
    for pod in pods:
        for container in pod.spec.containers if pod.status.phase not in ended else ():
            for device in container.devices:
                if device.type == vocabulary.DeviceType.GPU:
                    key = device.uuid, pod.metadata.namespace, pod.metadata.name, container.name
                    found[key] += device.core
    return found
