"""What a pod requires of other pods: required pod affinity and anti-affinity, and spread that must be kept.

What it only prefers stands in `preferred_pods`, and is written alike.

Labels whose keys a pod lists (`matchLabelKeys`, `mismatchLabelKeys`) become expressions with its own
values. For pod affinity the API server has done so already, when the pod was created: a key that its selector
names is left as it is there.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_operator.scheduling import pod_terms
from berth_operator.scheduling.nodes import affinity, facts
from berth_operator.translate import raw

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
HONOR: Final = "Honor"
MOST_COARSE_TERMS: Final = 16

Terms = tuple[raw.PodAffinityTerm, ...]
Labels = Mapping[str, str]


def of_pod(pod: raw.Pod) -> facts.InterPodRules | None:
    """Return what a pod requires of other pods; None for nothing."""
    near, far, spread = affinity_terms(pod.spec), anti_affinity_terms(pod.spec), spread_constraints(pod.spec)
    if not (near or far or spread):
        return None
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    affinity_ = required_affinity(pod)
    return facts.InterPodRules(
        spread=tuple(spread_constraint(one, namespace, labels) for one in spread),
        affinity=affinity_,
        self_match=bool(near)
        and all(_expressions_hold(one.selector.expressions, labels) for one in affinity_),
        namespace=namespace if near else "",
        anti_affinity=_terms(far, namespace, labels),
    )


def required_affinity(pod: raw.Pod) -> tuple[facts.PodTerm, ...]:
    """Return the required terms about pods that must be near."""
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    return tuple(term(one, namespace, labels) for one in affinity_terms(pod.spec))


def anti_affinity(pod: raw.Pod) -> tuple[facts.PodTerm, ...]:
    """Return the terms by which a pod on a node keeps others away."""
    return _terms(anti_affinity_terms(pod.spec), pod.metadata.namespace, pod.metadata.labels)


def coarse_anti_affinity(pod: raw.Pod) -> tuple[facts.PodTerm, ...]:
    """Return terms by which a pod on a node that says more than is read keeps away all whom it might.

    They say nothing of labels, so only namespaces and topology keys make them differ. Of too many it
    is kept only whether they are about other namespaces, for the pod's node alone (`all_of_namespaces`).
    """
    namespace = pod.metadata.namespace
    about_pods = tuple(one for one in anti_affinity_terms(pod.spec) if one.label_selector is not None)
    terms = dict[facts.PodTerm, None]()
    for one in about_pods:
        terms[facts.PodTerm(_all_pods(one, namespace), one.topology_key)] = None
        if len(terms) > MOST_COARSE_TERMS:
            return _coarsest(about_pods, namespace)
    return tuple(terms)


def _coarsest(about_pods: Terms, namespace: str) -> tuple[facts.PodTerm, ...]:
    """Return one term for those about pods of the namespace alone, and one for all others."""
    one_of_each = {_is_about_own(one, namespace): one for one in about_pods}
    terms = (facts.PodTerm(_all_pods(one, namespace), one.topology_key) for one in one_of_each.values())
    return tuple(pod_terms.all_of_namespaces(one, namespace) for one in terms)


def _is_about_own(written: raw.PodAffinityTerm, namespace: str) -> bool:
    """Whether a term is about pods of its own namespace alone."""
    return written.namespace_selector is None and set(written.namespaces or ()) <= {namespace}


def affinity_terms(spec: raw.PodSpec) -> Terms:
    """Return the required terms of a pod's affinity."""
    found = spec.affinity.pod_affinity if spec.affinity is not None else None
    return (found.required or ()) if found is not None else ()


def anti_affinity_terms(spec: raw.PodSpec) -> Terms:
    """Return the required terms of a pod's anti-affinity."""
    found = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    return (found.required or ()) if found is not None else ()


def spread_constraints(spec: raw.PodSpec) -> tuple[raw.TopologySpreadConstraint, ...]:
    """Return the topology spread constraints that must be met."""
    found = spec.topology_spread_constraints or ()
    return tuple(one for one in found if one.when_unsatisfiable == DO_NOT_SCHEDULE)


def required(spec: raw.PodSpec) -> tuple[raw.PodAffinityTerm | raw.TopologySpreadConstraint, ...]:
    """Return all terms and constraints by which a pod requires something of other pods."""
    return (*affinity_terms(spec), *anti_affinity_terms(spec), *spread_constraints(spec))


def selectors(spec: raw.PodSpec) -> Iterator[raw.LabelSelector]:
    """Yield all selectors of what a pod requires of other pods."""
    terms = (*affinity_terms(spec), *anti_affinity_terms(spec))
    of_terms = (each for one in terms for each in (one.label_selector, one.namespace_selector))
    of_spread = (one.label_selector for one in spread_constraints(spec))
    return (one for one in (*of_terms, *of_spread) if one is not None)


def keys(spec: raw.PodSpec) -> frozenset[str]:
    """Return the labels of the pod itself on which the meaning of its spec depends."""
    if spec.affinity is None and not spec.topology_spread_constraints:
        return frozenset()
    listed = [one.match_label_keys or () for one in spread_constraints(spec)]
    for one in (*affinity_terms(spec), *anti_affinity_terms(spec)):
        listed += [one.match_label_keys or (), one.mismatch_label_keys or ()]
    named = ((*(one.match_labels or ()), *_keys(one.match_expressions)) for one in selectors(spec))
    return frozenset(key for some in (*listed, *named) for key in some)


def _keys(expressions: Iterable[raw.Expression] | None) -> Iterator[str]:
    return (one.key for one in expressions or ())


def _terms(found: Terms, namespace: str, labels: Labels) -> tuple[facts.PodTerm, ...]:
    return tuple(dict.fromkeys(term(one, namespace, labels) for one in found))


def term(written: raw.PodAffinityTerm, namespace: str, labels: Labels) -> facts.PodTerm:
    """Return a term; without namespaces of its own it is about those of the pod's namespace."""
    expressions = _expressions(written.label_selector)
    if expressions is not None and (written.match_label_keys or written.mismatch_label_keys):
        more = (
            *_of_keys("In", written.match_label_keys or (), labels, expressions),
            *_of_keys("NotIn", written.mismatch_label_keys or (), labels, expressions),
        )
        expressions = _in_order((*expressions, *more))
    return facts.PodTerm(_selector(written, namespace, expressions), written.topology_key)


def _all_pods(written: raw.PodAffinityTerm, namespace: str) -> facts.PodSelector:
    """Return a selector of all pods of the namespaces that a term is about."""
    return _selector(written, namespace, ())


def _selector(
    written: raw.PodAffinityTerm, namespace: str, expressions: facts.Expressions | None
) -> facts.PodSelector:
    """Return a selector of the pods of the namespaces that a term is about that meet some expressions."""
    own = written.namespace_selector is None and not written.namespaces
    return facts.PodSelector(
        (namespace,) if own else tuple(sorted(set(written.namespaces or ()))),
        expressions,
        _expressions(written.namespace_selector),
    )


def spread_constraint(
    constraint: raw.TopologySpreadConstraint, namespace: str, labels: Labels
) -> facts.SpreadConstraint:
    """Return a topology spread constraint, which is about the pods of the pod's namespace."""
    expressions = _expressions(constraint.label_selector)
    if expressions is not None:
        own = _of_keys("In", constraint.match_label_keys or (), labels)
        expressions = _in_order((*expressions, *own))
    return facts.SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=facts.PodSelector((namespace,), expressions),
        self_match=_expressions_hold(expressions, labels),
        min_domains=constraint.min_domains or 1,
        honors_affinity=constraint.node_affinity_policy in {None, HONOR},
        honors_taints=constraint.node_taints_policy == HONOR,
    )


def soft_constraint(
    constraint: raw.TopologySpreadConstraint, namespace: str, labels: Labels
) -> facts.SpreadConstraint:
    """Return one that may be missed: whether it means the pod itself matters to none of its domains."""
    return dataclasses.replace(spread_constraint(constraint, namespace, labels), self_match=False)


def _of_keys(
    operator: str, keys_: Iterable[str], labels: Labels, named: Collection[facts.LabelExpression] = ()
) -> Iterator[facts.LabelExpression]:
    """Yield expressions with the pod's own values of some labels, for those that no expression names."""
    there = {one.key for one in named}
    return (
        facts.LabelExpression(key, operator, (labels[key],))
        for key in keys_
        if key in labels and key not in there
    )


def _expressions(selector: raw.LabelSelector | None) -> facts.Expressions | None:
    """Return the expressions of a selector in order; None without one."""
    if selector is None:
        return None
    pairs = (selector.match_labels or {}).items()
    listed = (
        facts.LabelExpression(one.key, one.operator, tuple(sorted(set(one.values or ()))))
        for one in selector.match_expressions or ()
    )
    return _in_order((*(facts.LabelExpression(key, "In", (value,)) for key, value in pairs), *listed))


def _in_order(found: Iterable[facts.LabelExpression]) -> facts.Expressions:
    return tuple(sorted(set(found)))


def _expressions_hold(expressions: facts.Expressions | None, labels: Labels) -> bool:
    return expressions is not None and all(affinity.holds(one, labels) for one in expressions)
