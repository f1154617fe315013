"""Whether the node can hand the cards to the pod's containers, so that none starts without its cards."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from berth_crds import device_types, names
from berth_operator.scheduling import (
    changes,
    delivery_methods,
    gpu_units,
    node_table,
    queued_pods,
    signatures,
)
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import have, invariant, listed, nodes_that, noun

MADE_TOO_EARLY: Final = (
    "would start the pod without its cards, as it was created before Berth's admission policy:"
    " create it again"
)
ASK_BY_COUNTED_NAMES: Final = f"ask for {names.NVIDIA_GPU} or {names.GPU}"


def asked(signature: signatures.Signature) -> bool:
    """Whether there are nodes on which the pod would start without its cards."""
    return signature.demand.delivery != delivery_methods.ALL or signature.demand.is_counted


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that have one of the methods that serve the pod."""
    methods, need = query.table.delivery[query.rows], query.need
    if (need.replicas or need.instances) and not query.signature.gpu_unit:
        # Where nvidia.com/gpu asks for these, the kubelet counts them by that name alone.
        renamed = gpu_units.stands_for_pieces(query.table, query.rows)
        methods = np.where(renamed, methods & ~int(DeliveryMethod.DEVICE_PLUGIN), methods)
    found: node_table.Mask = (methods & int(query.signature.demand.delivery)) != 0
    return found & ~_unserved(query)


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that serve others by the environment, those that do by their kubelet, and the rest."""
    refusing, unserved = ~feasible(query), _unserved(query)
    if _is_opening(query.signature.demand):
        yield Rejection(refusing, Reason.NO_DELIVERY)
        return
    obeying = ~unserved & _having(DeliveryMethod.ENVIRONMENT, query)
    counting = ~unserved & ~obeying & _having(DeliveryMethod.DEVICE_PLUGIN, query)
    yield Rejection(refusing & obeying, Reason.NOT_FED, never_fits=True)
    yield Rejection(refusing & counting, Reason.NOT_COUNTED)
    yield Rejection(refusing & ~obeying & ~counting, Reason.NO_DELIVERY)


def _is_opening(demand: facts.NodeDemand) -> bool:
    """Whether a pod has devices that only the runtime's plugin of an agent brings to containers."""
    return bool(demand.delivery & DeliveryMethod.OPENING)


def _no_delivery(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    told = "its Device says why" if nodes == 1 else "their Devices say why"
    if not _is_opening(pod.demand):
        return f"{have(nodes)} no way to give containers their cards: {told}"
    opened = filter(device_types.is_opened, pod.request.need.other_types)
    what = listed(noun(name, 2) for name in opened)
    return f"{have(nodes)} no way to give containers their {what}, for which the agent needs --nri: {told}"


def _unserved(query: Query) -> node_table.Mask:
    """Return the nodes whose kubelet would fail the pod, whatever their other methods."""
    return _having(DeliveryMethod.UNSERVED if query.signature.demand.is_counted else DeliveryMethod(0), query)


def _having(method: DeliveryMethod, query: Query) -> node_table.Mask:
    found: node_table.Mask = (query.table.delivery[query.rows] & int(method)) != 0
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedEnvironment(changes.Change):
    """The pod is made again, so that the API server feeds its environment."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    cost: float = changes.CONDITION_COST

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario with a pod whose environment is fed."""
        demand = scenario.demand
        return dataclasses.replace(
            scenario,
            demand=dataclasses.replace(demand, delivery=demand.delivery | DeliveryMethod.ENVIRONMENT),
        )

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        return "it were created again, with Berth's admission policy in place"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to make the pod again, where that alone would do on a node."""
    query = failed.query
    if _is_opening(query.signature.demand):
        return
    rows = np.isin(np.arange(query.inventory.size)[query.rows], failed.rows_blocked_by_this_alone())
    if (rows & ~feasible(query) & ~_unserved(query) & _having(DeliveryMethod.ENVIRONMENT, query)).any():
        yield changes.ProposedChange([FeedEnvironment()])


CONSTRAINT = Constraint(
    applies_to=asked,
    feasible=feasible,
    unresolvable=unresolvable,
    relaxations=relaxations,
    words={
        Reason.NOT_FED: invariant(MADE_TOO_EARLY),
        Reason.NOT_COUNTED: nodes_that(
            f"gives what its kubelet counts and no more: {ASK_BY_COUNTED_NAMES}",
            f"give what their kubelets count and no more: {ASK_BY_COUNTED_NAMES}",
        ),
        Reason.NO_DELIVERY: _no_delivery,
    },
    brief={
        Reason.NOT_FED: "pod made before Berth's admission policy",
        Reason.NOT_COUNTED: "not asked for by a name that the kubelet counts",
        Reason.NO_DELIVERY: "no way to give containers their cards",
    },
)
