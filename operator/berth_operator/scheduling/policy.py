"""The rules in force: how nodes are ranked, what counts, and how long an agent may be silent.

The strategies themselves stand in `strategies`.
"""

import dataclasses
from typing import Final

from berth_crds import catalog, names
from berth_crds.vocabulary import Delivery, MetricNames, NodeNames, PodRecords, Strategy
from berth_operator.scheduling import node_table

MIB: Final = 1 << 20
FULL_CORE: Final = 100  # Percent.
MOST_WEIGHT: Final = 100
MOST_MIN_MEMORY: Final = 65536 * MIB  # What a policy may ask for at least, at most.


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """How much compute and memory of the cards count, and further points; only the proportion matters."""

    core: int = 1
    memory: int = 1
    cards: int = 0
    card_memory: int = 0
    utilization: int = 0
    encoder: int = 0
    decoder: int = 0
    power: int = 0
    free_memory: int = 0

    @property
    def hardware(self) -> int:
        """The weight of all further points that a load does not change."""
        return self.cards + self.card_memory

    @property
    def load(self) -> int:
        """The weight of all points of the measured load."""
        return self.utilization + self.encoder + self.decoder + self.power + self.free_memory

    def mean(self, core: node_table.Scores, memory: node_table.Scores) -> node_table.Scores:
        """Weigh a figure of each into one."""
        mean: node_table.Scores = (self.core * core + self.memory * memory) / (self.core + self.memory)
        return mean


@dataclasses.dataclass(frozen=True, slots=True)
class PreferenceWeights:
    """How much the strategy and each preference count when the best node is chosen.

    `unstated` multiplies the weights of what no pod states: images and balance. With 0 these decide only
    between nodes that are equally good by all else.
    """

    strategy: int = 100
    strategy_without_devices: int = 1
    node_affinity: int = 2
    taints: int = 3
    pod_affinity: int = 2
    spread: int = 2
    images: int = 1
    balance: int = 1
    unstated: int = 0

    @property
    def default_spread(self) -> int:
        """The weight of spread that nobody asks for: the same."""
        return self.spread


@dataclasses.dataclass(frozen=True, slots=True)
class Oversale:
    """Up to how many percent the core of a card may be promised in all to a pod of one of these classes."""

    core: int = FULL_CORE
    priority_classes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any core may be promised twice."""
        return self.core > FULL_CORE and bool(self.priority_classes)


NO_OVERSALE: Final = Oversale()


@dataclasses.dataclass(frozen=True, slots=True)
class Prometheus:
    """Where the loads of cards are asked for, and how long they count."""

    url: str = ""  # Empty: the address of the Service with these labels.
    namespace: str = "monitoring"
    service_selector: str = "app.kubernetes.io/name=prometheus"
    metrics: MetricNames = MetricNames.DCGM
    interval_seconds: float = 15.0
    max_age_seconds: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a PlacementPolicy says, as the core uses it."""

    strategy: Strategy = Strategy.FRAGMENTATION
    weights: Weights = Weights()
    preferences: PreferenceWeights = PreferenceWeights()
    grace_seconds: float = 40.0
    unknown_seconds: float = 20.0
    load_seconds: float = 30.0  # So long a load counts that an agent measured.
    prometheus: Prometheus | None = None  # The source of all loads in place of the agents.
    taint_silent: bool = False  # Whether the Node of a silent agent is tainted.
    evict_after_seconds: float | None = None  # From when an agent is silent until its node's pods go.
    evict_sick: bool = False  # Whether pods go from cards that need a reset, a reboot or the like.
    drain_cordoned: bool = False  # Whether pods go from cordoned cards.
    label_priority: int = 0  # So much a label counts at most between namespaces.
    models: tuple[tuple[str, str], ...] = ()  # Keys of names that pods use, and what drivers report for them.
    fractions: bool = True  # Whether pods may have a part of a card.
    replicas: bool = True  # Whether a card that its node shares is given to several pods.
    oversale: Oversale = NO_OVERSALE
    delivery: Delivery = Delivery.REPORTED
    node_names: NodeNames = NodeNames.BERTH
    pod_records: PodRecords = PodRecords.BERTH
    pod_records_from: frozenset[str] = frozenset(
        {names.KOORDINATOR_SCHEDULER}
    )  # Schedulers that are believed.
    min_memory: int = 64 * MIB  # Bytes of a card; a pod that asks for less has most likely left out the unit.

    @property
    def load_age(self) -> float:
        """The seconds for which a measured load counts, whoever measured it."""
        return self.load_seconds if self.prometheus is None else self.prometheus.max_age_seconds

    def known_as(self, name: str) -> str:
        """Return what drivers report for a model; empty where the policy knows no other name of it."""
        return dict(self.models).get(catalog.model_key(name), "")
