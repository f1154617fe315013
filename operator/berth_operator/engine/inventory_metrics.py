"""What the metrics show of the ledger, counted when they are read."""

from collections.abc import Iterator

import numpy as np
from prometheus_client import core, registry

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.metrics import PREFIX
from berth_operator.scheduling import node_table, queued_pods


def description(ledger: Ledger) -> str:
    """Return the numbers of nodes, pods and binds, in a few words."""
    binding = len(ledger.assumed_pods)
    holds = sum(len(info.holds) for info in ledger.inventory.infos if info) - binding
    counts = (
        (len(ledger.inventory.index), "node"),
        (holds, "pod"),
        (binding, "bind"),
        (len(ledger.backlog) + len(ledger.gated), "pod"),
    )
    nodes, placed, binds, pods = (f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
    return f"{nodes}, {placed} placed, {binds} under way, {pods} waiting"


class InventoryCollector(registry.Collector):
    """Counts nodes, cards, and pods that are not placed, when the metrics are read."""

    def __init__(self, ledger: Ledger, clock: ports.Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def collect(self) -> Iterator[core.Metric]:
        """Yield the present counts."""
        ledger, inventory = self._ledger, self._ledger.inventory
        table, rows = inventory.table, inventory.all_rows
        free = np.maximum(0, node_table.count(table.unused[rows]) - table.withheld[rows])
        free[[at for at, info in enumerate(inventory.infos) if info and info.cordoned]] = 0
        cards = sum(len(info.device.cards) for info in inventory.infos if info and info.device)
        nodes = int(table.has_node[rows].sum())
        yield core.GaugeMetricFamily(f"{PREFIX}_nodes", "Nodes that are known.", nodes)
        yield core.GaugeMetricFamily(
            f"{PREFIX}_agents_suspected",
            "Agents that fell silent together with most others, so that it may be the operator who does not "
            "hear them; 0 in good times.",
            ledger.suspects,
        )
        yield core.GaugeMetricFamily(f"{PREFIX}_cards", "GPUs that agents publish.", cards)
        yield core.GaugeMetricFamily(
            f"{PREFIX}_cards_free", "GPUs of which a pod could get the whole now.", int(free.sum())
        )
        yield core.GaugeMetricFamily(
            f"{PREFIX}_cards_measured", "GPUs of which a measured load counts now.", ledger.loads.cards
        )
        waiting = core.GaugeMetricFamily(
            f"{PREFIX}_backlog_pods",
            "Pods that are not placed, in the states of kube-scheduler's queues: active (to be tried), "
            "backoff (a pause must end), unschedulable (it does not fit, and waits for something to change), "
            "gated; and binding (its bind is under way).",
            labels=["state"],
        )
        counts = dict.fromkeys(queued_pods.Standing, 0)
        now = self._clock()
        for entry in ledger.backlog.entries():
            counts[entry.standing(now)] += 1
        counts[queued_pods.Standing.GATED] = len(ledger.gated)
        counts[queued_pods.Standing.BINDING] = len(ledger.assumed_pods)
        for state, count in counts.items():
            waiting.add_metric([state], count)
        yield waiting
