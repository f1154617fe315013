"""The load of cards from samples of metrics: which card each is of, and how long it counts.

Samples come by the uuids of cards, a metric at a time, each with the time when it was measured. What they
say of a node is reported like what its agent would have. A sample that is too old counts as if it was not
there. All samples of a large cluster are many: they are gone through in pieces, and pods are bound meanwhile.
"""

import asyncio
import enum
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from berth_crds import card_load
from berth_crds.card_load import CardLoad
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.measured_loads import MeasuredLoads

NODES_AT_ONCE: Final = 50
# Exporters write very large figures for what a card cannot measure.
MOST_PERCENT: Final = 100.0
MOST_MEMORY: Final = float(1 << 24)  # MiB: 16 TiB.
MOST_WATTS: Final = 1e5


class Metric(enum.StrEnum):
    """What is measured of a card, by its name in DCGM without the prefix."""

    UTILIZATION = "GPU_UTIL"
    ENCODER = "ENC_UTIL"
    DECODER = "DEC_UTIL"
    POWER = "POWER_USAGE"
    POWER_LIMIT = "POWER_MGMT_LIMIT"
    FREE_MEMORY = "FB_FREE"


class Sample(NamedTuple):
    """A figure, and when it was measured by our own clock."""

    value: float
    measured: float


Samples = Mapping[str, Sample]  # By the uuids of cards.
Figures = Mapping[Metric, float]


class SampledLoads:
    """The newest samples of all cards."""

    def __init__(self, ledger: Ledger, loads: MeasuredLoads, *, clock: ports.Clock) -> None:
        self._ledger = ledger
        self._loads = loads
        self._clock = clock
        self._samples: dict[Metric, Samples] = {}
        self.expires = math.inf  # When the first sample that counts will be too old.

    def record(self, metric: Metric, samples: Samples) -> None:
        """Record all that there is of a metric; a card that is not among it is not measured any more."""
        self._samples[metric] = samples

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()
        self.expires = math.inf

    @property
    def uuids(self) -> set[str]:
        """The uuids of which there is any sample."""
        return set().union(*self._samples.values())

    async def apply(self) -> None:
        """Report of each node what counts now, as long as the policy in force stays the same."""
        policy = self._ledger.policy
        oldest = self._clock() - policy.load_age
        self.expires = math.inf
        nodes = list(self._ledger.inventory.index)
        for start in range(0, len(nodes), NODES_AT_ONCE):
            if self._ledger.policy is not policy:
                self.expires = -math.inf  # By the new policy all nodes are looked at again.
                return
            for node in nodes[start : start + NODES_AT_ONCE]:
                self._apply_to(node, oldest)
            await asyncio.sleep(0)

    def _apply_to(self, node: str, oldest: float) -> None:
        info = self._ledger.inventory.node(node)
        if info is None or info.device is None:
            return
        loads = {card.minor: load(self._figures(card.uuid, oldest)) for card in info.device.cards}
        self._loads.found(
            node, {minor: known for minor, known in loads.items() if known != card_load.NOTHING}
        )

    def _figures(self, uuid: str, oldest: float) -> Figures:
        """Return what counts of a card, and see to it that it does not count for too long."""
        figures = {}
        for metric, samples in self._samples.items():
            sample = samples.get(uuid)
            if sample is not None and sample.measured >= oldest:
                figures[metric] = sample.value
                self.expires = min(self.expires, sample.measured + self._ledger.policy.load_age)
        return figures


def load(figures: Figures) -> CardLoad:
    """Return the load of a card, rounded as agents round it."""
    return card_load.rounded(
        CardLoad(
            utilization=_percent(figures, Metric.UTILIZATION),
            encoder=_percent(figures, Metric.ENCODER),
            decoder=_percent(figures, Metric.DECODER),
            power=_power(figures),
            free_memory=_free_memory(figures),
        )
    )


def _figure(figures: Figures, metric: Metric, most: float) -> float | None:
    """Return a figure; None where there is none, or one that cannot be meant."""
    value = figures.get(metric, math.nan)
    return value if 0 <= value <= most else None


def _percent(figures: Figures, metric: Metric) -> int:
    value = _figure(figures, metric, MOST_PERCENT)
    return card_load.UNKNOWN if value is None else round(value)


def _power(figures: Figures) -> int:
    """Return the power in percent of the card's limit; unknown without a limit."""
    watts, limit = (_figure(figures, one, MOST_WATTS) for one in (Metric.POWER, Metric.POWER_LIMIT))
    return card_load.UNKNOWN if watts is None or not limit else round(min(1.0, watts / limit) * MOST_PERCENT)


def _free_memory(figures: Figures) -> int:
    value = _figure(figures, Metric.FREE_MEMORY, MOST_MEMORY)
    return card_load.UNKNOWN if value is None else int(value) * card_load.MIB
