"""PlacementPolicies as the core uses them, or the reason why one cannot apply."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from berth_crds import catalog, schema_limits, vocabulary, wire
from berth_crds.text import quoted
from berth_operator.scheduling import policy
from berth_operator.scheduling.policy import Policy, PreferenceWeights, Weights
from berth_operator.translate import load_sources

DEFAULT: Final = Policy()
# By default agents renew their Leases every 10 s, and a round may take 5 s before that.
SHORT_GRACE_SECONDS: Final = 15


def read(thing: wire.PlacementPolicy) -> Policy | str:
    """Return a policy, or a sentence that says why it is invalid."""
    spec = thing.spec
    if spec.strategy not in set(vocabulary.Strategy):
        known = ", ".join(vocabulary.Strategy)
        return f"spec.strategy {quoted(spec.strategy)} is not known (known: {known})"
    if fault := _agents_fault(spec.agents):
        return fault
    min_memory = spec.sharing.min_memory * policy.MIB
    if not 0 <= min_memory <= policy.MOST_MIN_MEMORY:
        most = policy.MOST_MIN_MEMORY // policy.MIB
        return f"spec.sharing.minMemoryMiB must be from 0 to {most}, not {spec.sharing.min_memory}"
    if fault := (
        _weights_fault(spec)
        or _words_fault(spec)
        or _schedulers_fault(spec.pod_records_from)
        or _oversale_fault(spec.oversale)
        or _models_fault(spec.models)
    ):
        return fault
    prometheus = load_sources.read(spec.load)
    if isinstance(prometheus, str):
        return prometheus
    return Policy(
        strategy=vocabulary.Strategy(spec.strategy),
        weights=_same_fields(spec.weights, Weights),
        preferences=_same_fields(spec.preferences, PreferenceWeights),
        grace_seconds=float(spec.agents.grace_seconds),
        unknown_seconds=float(spec.agents.unknown_seconds),
        load_seconds=float(spec.agents.load_seconds),
        prometheus=prometheus,
        taint_silent=spec.agents.taint,
        evict_after_seconds=_seconds(spec.agents.evict_after_seconds),
        evict_sick=spec.health.on_sick == vocabulary.OnSick.EVICT,
        drain_cordoned=spec.on_cordon == vocabulary.OnCordon.DRAIN,
        label_priority=spec.priorities.label_at_most,
        models=tuple(sorted((catalog.model_key(name), model) for name, model in spec.models.items())),
        fractions=spec.sharing.fractions,
        replicas=spec.sharing.replicas,
        oversale=policy.NO_OVERSALE
        if spec.oversale is None
        else policy.Oversale(spec.oversale.core, frozenset(spec.oversale.priority_classes)),
        delivery=vocabulary.Delivery(spec.delivery),
        node_names=vocabulary.NodeNames(spec.node_names),
        pod_records=vocabulary.PodRecords(spec.pod_records),
        pod_records_from=frozenset(spec.pod_records_from),
        min_memory=min_memory,
    )


T = TypeVar("T", Weights, PreferenceWeights)


def _same_fields(written: wire.Weights | wire.Preferences, kind: type[T]) -> T:
    return kind(**{name: getattr(written, name) for name in kind.__dataclass_fields__})


def _weights_fault(spec: wire.PolicySpec) -> str:
    """Return what is wrong with the weights; empty if nothing."""
    weights = spec.weights
    if min(msgspec.structs.astuple(weights)) < 0 or not weights.core + weights.memory:
        return "spec.weights must not be negative, and core or memory must be above 0"
    for field in msgspec.structs.fields(spec.preferences):
        weight = getattr(spec.preferences, field.name)
        if not 0 <= weight <= policy.MOST_WEIGHT:
            return (
                f"spec.preferences.{field.encode_name} must be from 0 to {policy.MOST_WEIGHT}, not {weight}"
            )
    return ""


def _seconds(written: int | None) -> float | None:
    return None if written is None else float(written)


def _words_fault(spec: wire.PolicySpec) -> str:
    """Return which word of a policy is not known; empty if none."""
    for field, word, words in (
        ("delivery", spec.delivery, vocabulary.Delivery),
        ("nodeNames", spec.node_names, vocabulary.NodeNames),
        ("podRecords", spec.pod_records, vocabulary.PodRecords),
        ("health.onSick", spec.health.on_sick, vocabulary.OnSick),
        ("onCordon", spec.on_cordon, vocabulary.OnCordon),
    ):
        if word not in set(words):
            return f"spec.{field} {quoted(word)} is not known (known: {', '.join(words)})"
    return ""


def _schedulers_fault(schedulers: Sequence[str]) -> str:
    """Return what is wrong with the schedulers whose records of cards are believed; empty if nothing."""
    most = schema_limits.MOST_SCHEDULERS
    if len(schedulers) > most:
        return f"spec.podRecordsFrom must name {most} schedulers at most, not {len(schedulers)}"
    for name in schedulers:
        if not schema_limits.SCHEDULER.matches(name):
            return f"spec.podRecordsFrom: {quoted(name)} cannot be the name of a scheduler"
    return ""


def _agents_fault(agents: wire.Agents) -> str:
    """Return what is wrong with the periods of agents; empty if nothing."""
    if agents.grace_seconds <= 0:
        return f"spec.agents.graceSeconds must be positive, not {agents.grace_seconds}"
    if agents.unknown_seconds < 0:
        return f"spec.agents.unknownSeconds must not be negative, as {agents.unknown_seconds} is"
    if agents.load_seconds <= 0:
        return f"spec.agents.loadSeconds must be positive, not {agents.load_seconds}"
    if agents.evict_after_seconds is not None and agents.evict_after_seconds < 0:
        return f"spec.agents.evictAfterSeconds must not be negative, as {agents.evict_after_seconds} is"
    return ""


def _oversale_fault(oversale: wire.Oversale | None) -> str:
    """Return what is wrong with the oversale of core; empty if nothing."""
    if oversale is None:
        return ""
    most, classes = schema_limits.MOST_CORE, len(oversale.priority_classes)
    if not policy.FULL_CORE <= oversale.core <= most:
        return f"spec.oversale.core must be from {policy.FULL_CORE} to {most} percent, not {oversale.core}"
    if not 1 <= classes <= schema_limits.MOST_OVERSALE_CLASSES:
        most = schema_limits.MOST_OVERSALE_CLASSES
        return f"spec.oversale.priorityClasses must name 1 to {most} PriorityClasses, not {classes}"
    for name in oversale.priority_classes:
        if not schema_limits.DNS_SUBDOMAIN.matches(name):
            return f"spec.oversale.priorityClasses: {quoted(name)} cannot be the name of a PriorityClass"
    return ""


def _models_fault(models: Mapping[str, str]) -> str:
    """Return what is wrong with the further names of models; empty if nothing.

    Two names may each stand for the other: a request for either accepts both.
    """
    known: dict[str, tuple[str, str]] = {}
    for name, model in sorted(models.items()):
        if not name.strip() or not model.strip():
            return f"spec.models: {quoted(name)} for {quoted(model)}: neither of the two names may be empty"
        other, meant = known.setdefault(catalog.model_key(name), (name, model))
        if catalog.model_key(meant) != catalog.model_key(model):
            return (
                f"spec.models: {quoted(other)} and {quoted(name)} are one name, which cannot stand for both "
                f"{quoted(meant)} and {quoted(model)}; keep one of them"
            )
    return ""


def warning(policy: Policy) -> str:
    """Return what to know of a policy that applies; empty if nothing."""
    if policy.grace_seconds > SHORT_GRACE_SECONDS:
        return ""
    return (
        f" With spec.agents.graceSeconds {policy.grace_seconds:g} nodes may be closed and opened"
        f" again and again, since agents renew their Leases every 10 s by default:"
        f" use more than {SHORT_GRACE_SECONDS}."
    )
