"""What a pod demands of a node apart from cards: amounts, and where it may run.

The amounts follow Kubernetes' own rule: containers and sidecars together, or the
largest init container beside the sidecars already started, whichever is more; then the
pod's overhead. Amounts of cpu, memory and huge pages that are set for the pod as a whole
replace the sum; a limit alone does so only where no container has a request.

Resources that Berth serves, its own and those of other projects, are kept apart: the Device
supplies them, and the node only where it advertises the same name.
"""

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_crds import aliases
from berth_operator.scheduling import container_peaks
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import node_features, node_images, pod_limits, quantities, raw, resources

HUGE_PAGES: Final = "hugepages-"
OS_LABEL: Final = "kubernetes.io/os"  # Each kubelet writes it on its node.
EVERY_ADDRESS: Final = frozenset({None, "", "0.0.0.0"})


def demand(spec: raw.PodSpec) -> facts.NodeDemand:
    """Return a pod's whole demand."""
    total = amounts(spec)
    return facts.NodeDemand(
        amounts=tuple((name, amount) for name, amount in total if not _of_devices(name)),
        device_resources=tuple((name, amount) for name, amount in total if _of_devices(name)),
        node_selection=node_selection(spec),
        host_ports=host_ports(spec),
        preferred=preferred(spec),
        images=node_images.of_pod(spec),
    )


def _of_devices(name: str) -> bool:
    """Whether the Device alone supplies a resource, where the node does not list it."""
    return aliases.is_served(name) and not name.startswith(aliases.LISTED_OR_REFUSED)


def amounts(spec: raw.PodSpec) -> facts.Amounts:
    """Return a pod's effective requests, sorted by name, without zeros.

    A bound pod cannot be refused, so all its requests are added up, and it may have thousands of
    containers. If it names more resources than any node has, the last are left out.
    """
    starting = [(resources.pairs(one), one.restart_policy == "Always") for one in spec.init_containers or ()]
    # Most of thousands of containers request the same amounts, so these are counted before they are read.
    counts = collections.Counter(itertools.chain.from_iterable(map(resources.pairs, spec.containers)))
    named = dict.fromkeys((name for name, _ in itertools.chain(*(pairs for pairs, _ in starting), counts)), 0)
    if len(some := _first(named)) < len(named):
        starting = [(_of_some(pairs, some), runs) for pairs, runs in starting]
        counts = collections.Counter({pair: counts[pair] for pair in _of_some(counts, some)})
    running = ((name, times * _amount(name, value)) for (name, value), times in counts.items())
    every = (*((_read(pairs), runs) for pairs, runs in starting), (running, True))
    total = collections.Counter(as_a_whole(container_peaks.peaks(every), spec.resources))
    total.update(dict(_read((spec.overhead or {}).items())))
    asked = {name: min(amount, facts.LARGEST) for name, amount in _first(total).items() if amount}
    return tuple(sorted({**asked, facts.PODS: 1}.items()))


def _first(total: dict[str, int]) -> dict[str, int]:
    """Return the first of very many amounts, and those that every pod has."""
    if len(total) <= pod_limits.MAX_BOUND_RESOURCES:
        return total
    some = itertools.islice(total, pod_limits.MAX_BOUND_RESOURCES)
    return {name: total[name] for name in (facts.CPU, facts.MEMORY, *some) if name in total}


def _of_some(
    pairs: Iterable[tuple[str, raw.Quantity]], names: Collection[str]
) -> list[tuple[str, raw.Quantity]]:
    return [pair for pair in pairs if pair[0] in names]


def as_a_whole(total: Mapping[str, int], resources: raw.ContainerResources | None) -> dict[str, int]:
    """Return the sum of the containers, replaced by the amounts that are set for the whole pod."""
    if resources is None:
        return dict(total)
    limits, requests = (_settable(one or {}) for one in (resources.limits, resources.requests))
    return {**limits, **total, **requests}


def _settable(resources: raw.Resources) -> dict[str, int]:
    return {
        name: _amount(name, value)
        for name, value in resources.items()
        if name in {facts.CPU, facts.MEMORY} or name.startswith(HUGE_PAGES)
    }


def _read(pairs: Iterable[tuple[str, raw.Quantity]]) -> Iterator[tuple[str, int]]:
    return ((name, _amount(name, value)) for name, value in pairs)


def _amount(name: str, value: raw.Quantity) -> int:
    return quantities.demand(value, thousandths=name == facts.CPU)


def node_selection(spec: raw.PodSpec) -> facts.NodeSelection:
    """Return selector, required node affinity, tolerations and features.

    A kubelet admits no pod of another operating system than its node's, but the pod is charged to the
    node until it is deleted. So the operating system of a pod counts as a pair of its selector.
    """
    return facts.NodeSelection(
        selector=_selector(spec),
        affinity=_affinity(spec.affinity),
        tolerations=tuple(
            facts.Toleration(one.key, one.operator, one.value, one.effect) for one in spec.tolerations or ()
        ),
        features=node_features.needed(spec),
    )


def _selector(spec: raw.PodSpec) -> tuple[tuple[str, str], ...]:
    pairs = set((spec.node_selector or {}).items())
    if spec.os is not None:
        pairs.add((OS_LABEL, spec.os.name))
    return tuple(sorted(pairs))


def host_ports(spec: raw.PodSpec) -> tuple[facts.HostPort, ...]:
    """Return the host ports of the containers that keep running, at most MAX_BOUND_PORTS of them."""
    asked = (
        facts.HostPort(port.host_port, port.protocol or "TCP", _address(port.host_ip))
        for container, runs in resources.each_container(spec)
        if runs
        for port in container.ports or ()
        if port.host_port
    )
    return tuple(itertools.islice(asked, pod_limits.MAX_BOUND_PORTS))


def _address(text: str | None) -> str:
    return "" if text in EVERY_ADDRESS else text or ""


def _affinity(affinity: raw.Affinity | None) -> tuple[facts.Term, ...] | None:
    node = affinity.node_affinity if affinity else None
    if node is None or node.required is None:
        return None
    return tuple(map(_term, node.required.node_selector_terms or ()))


def preferred(spec: raw.PodSpec) -> tuple[facts.PreferredTerm, ...]:
    """Return the terms of preferred node affinity that count, as far as they are within the limits."""
    return tuple(
        facts.PreferredTerm(one.weight, _term(one.preference))
        for one in pod_limits.preferred_terms(spec)
        if one.weight > 0 and (one.preference.match_expressions or one.preference.match_fields)
    )


def _term(term: raw.SelectorTerm) -> facts.Term:
    return facts.Term(_conditions(term.match_expressions), _conditions(term.match_fields))


def _conditions(expressions: Iterable[raw.Expression] | None) -> tuple[facts.LabelExpression, ...]:
    return tuple(facts.LabelExpression(one.key, one.operator, one.values or ()) for one in expressions or ())
