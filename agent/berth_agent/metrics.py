"""What is measured, for Prometheus: of each card, of who holds it, and of the agent itself.

The series are made when somebody asks, from what is on the boards of the nodes, so that a card
that left its node leaves no measurement behind, only the count of its errors. Names and units of what a card
measures are in the style of NVIDIA's DCGM exporter, and its own names can be had instead, for
dashboards that are there already.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import core, registry

from berth_agent import node_view, probe
from berth_crds import vocabulary, wire

OWN: Final = "berth_dev_"
DCGM: Final = "DCGM_FI_DEV_"
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

MIB: Final = 1 << 20
LABELS: Final = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")

Number = float | None
Identity = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a card: its name as DCGM has it, what it is, and where it comes from."""

    name: str
    what: str
    read: Callable[[probe.Card, probe.Vitals], Number]
    counts: bool = False


def _mib(number: int | None) -> Number:
    return None if number is None else number / MIB


def _watt(number: int | None) -> Number:
    return None if number is None else number / 1000


def _rows(pick: Callable[[probe.Rows], int]) -> Callable[[probe.Card, probe.Vitals], Number]:
    return lambda _, vitals: None if vitals.rows is None else pick(vitals.rows)


MEASURES: Final = (
    Measure("FB_TOTAL", "Memory of the card in MiB.", lambda card, _: _mib(card.memory)),
    Measure(
        "FB_RESERVED",
        "Memory that the driver keeps for itself in MiB.",
        lambda _, it: _mib(it.memory_reserved),
    ),
    Measure("FB_USED", "Memory in use in MiB.", lambda _, it: _mib(it.memory_used)),
    Measure("FB_FREE", "Memory free in MiB.", lambda _, it: _mib(it.memory_free)),
    Measure("GPU_UTIL", "Part of the time in which something ran, in percent.", lambda _, it: it.utilization),
    Measure(
        "MEM_COPY_UTIL",
        "Part of the time in which memory was used, in percent.",
        lambda _, it: it.memory_utilization,
    ),
    Measure("POWER_USAGE", "Power in watts.", lambda _, it: _watt(it.power)),
    Measure(
        "POWER_MGMT_LIMIT", "Power that the card may take, in watts.", lambda _, it: _watt(it.power_limit)
    ),
    Measure("GPU_TEMP", "Temperature in degrees Celsius.", lambda _, it: it.temperature),
    Measure("SLOWDOWN_TEMP", "Temperature at which the card slows itself down.", lambda _, it: it.too_hot),
    Measure("SM_CLOCK", "Clock of the multiprocessors in MHz.", lambda _, it: it.core_clock),
    Measure("MEM_CLOCK", "Clock of the memory in MHz.", lambda _, it: it.memory_clock),
    Measure(
        "ECC_SBE_VOL_TOTAL",
        "Errors in memory corrected since the driver was loaded.",
        lambda _, it: it.errors_corrected,
        counts=True,
    ),
    Measure(
        "ECC_DBE_VOL_TOTAL",
        "Errors in memory not corrected since the driver was loaded.",
        lambda _, it: it.errors_uncorrected,
        counts=True,
    ),
    Measure(
        "CORRECTABLE_REMAPPED_ROWS",
        "Rows of memory replaced for errors that could be corrected.",
        _rows(lambda it: it.corrected),
        counts=True,
    ),
    Measure(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Rows of memory replaced for errors that could not.",
        _rows(lambda it: it.uncorrected),
        counts=True,
    ),
    Measure(
        "ROW_REMAP_PENDING", "Whether a row waits for a reset to be replaced.", _rows(lambda it: it.pending)
    ),
    Measure("ROW_REMAP_FAILURE", "Whether a row could not be replaced.", _rows(lambda it: it.failed)),
)


class Collector(registry.Collector):
    """Makes the series of some boards."""

    def __init__(
        self, boards: Iterable[node_view.Board], *, clock: Callable[[], float], dcgm: bool = False
    ) -> None:
        self._boards = tuple(boards)
        self._clock = clock
        self._dcgm = dcgm

    def collect(self) -> Iterator[core.Metric]:
        """Make all series."""
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
        # Of a counter the name would get an ending that DCGM's has not.
        counts = measure.counts and not self._dcgm
        kind = core.CounterMetricFamily if counts else core.GaugeMetricFamily
        family = kind(self._named(measure.name), measure.what, labels=LABELS)
        for one in self._boards:
            for card in one.sample.read() if one.sample else ():
                number = measure.read(card, card.vitals)
                if number is not None:
                    family.add_metric(identity(card, one.node), number)
        return family

    def _xids(self) -> core.Metric:
        family = core.CounterMetricFamily(
            f"{OWN}xid_errors",
            "Errors (XIDs) that the driver told, by their number.",
            labels=("UUID", "Hostname", "xid"),
        )
        for one in self._boards:
            for (uuid, number), count in sorted(one.xids.items()):
                family.add_metric((uuid, one.node, str(number)), count)
        return family

    def _last_xids(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            f"{DCGM}XID_ERRORS",
            "The last error (XID) that the driver told of a card; 0 for none.",
            labels=LABELS,
        )
        for one in self._boards:
            for card in one.sample.read() if one.sample else ():
                family.add_metric(identity(card, one.node), one.last_xids.get(card.uuid, 0))
        return family

    def _health(self) -> Iterator[core.Metric]:
        well = core.GaugeMetricFamily(
            f"{OWN}health",
            "1 if the last look found the card healthy, cordoned or not; 0 if it did not, or if it failed.",
            labels=("UUID", "Hostname"),
        )
        why = core.GaugeMetricFamily(
            f"{OWN}unhealthy",
            "1 for each card that is not healthy.",
            labels=("UUID", "Hostname", "reason", "xid", "recovery"),
        )
        for one in self._boards:
            ill = {each.uuid: each for each in one.status.devices if each.health != vocabulary.Health.HEALTHY}
            answers = not _source_failed(one.status)
            for uuid in sorted({each.uuid for each in one.sample.read()} | ill.keys() if one.sample else ill):
                well.add_metric((uuid, one.node), answers and uuid not in ill)
            for uuid, each in sorted(ill.items()):
                why.add_metric((uuid, one.node, each.reason, str(each.xid or ""), each.recovery), 1)
        return iter((well, why))

    def _holders(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            f"{OWN}holder",
            "Who holds a card: its share of the card's compute in percent, for each container.",
            labels=("UUID", "Hostname", "namespace", "pod", "container"),
        )
        for one in self._boards:
            for where, share in sorted(_shares(one.held()).items()):
                uuid, *rest = where
                family.add_metric((uuid, one.node, *rest), share)
        return family

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
        for one in self._boards:
            ticks.add_metric((one.node,), one.ticks, one.tick_seconds)
            for source, moment in sorted(one.answered.items()):
                ages.add_metric((one.node, source), max(0.0, now - moment))
        return iter((ticks, ages))


def text(collector: Collector) -> bytes:
    """Write all series as Prometheus reads them."""
    into = registry.CollectorRegistry()
    into.register(collector)
    return prometheus_client.generate_latest(into)


def identity(card: probe.Card, node: str) -> Identity:
    """Name a card as the DCGM exporter does."""
    return (
        str(card.index),
        card.uuid,
        card.place.bus_id or "",
        f"nvidia{card.minor}",
        card.model,
        node,
    )


def _source_failed(status: wire.DeviceStatus) -> bool:
    kind, no = vocabulary.DeviceCondition.NVML_READY, vocabulary.Truth.FALSE
    return any(each.type == kind and each.status == no for each in status.conditions)


def _shares(pods: Iterable[wire.GpuPod]) -> Mapping[Identity, int]:
    """Add up what each container holds of each GPU, for a record may name one twice."""
    ended = {vocabulary.PodPhase.SUCCEEDED, vocabulary.PodPhase.FAILED}
    found: collections.Counter[Identity] = collections.Counter()
    for pod in pods:
        for container in pod.spec.containers if pod.status.phase not in ended else ():
            for device in container.devices:
                if device.type == vocabulary.DeviceType.GPU:
                    key = device.uuid, pod.metadata.namespace, pod.metadata.name, container.name
                    found[key] += device.core
    return found
