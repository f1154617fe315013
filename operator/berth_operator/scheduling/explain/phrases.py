"""Words of an explanation: what there is instead, reasons in brief, devices by their names.

The words of each reason stand with its constraint, and so do those of the changes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from berth_crds import catalog, names
from berth_operator.scheduling import known_models, queued_pods, wording
from berth_operator.scheduling.constraints import arrangement, cards, registry
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Unit
from berth_operator.scheduling.devices import allocator, device_facts, requests

NOWHERE: Final = "no node has any of them"
PART_OF_NAME: Final = (
    f"; {names.MODEL} needs the full model name; use {names.MODEL_PATTERN} for a partial match"
)


def there(known: known_models.Models, pod_info: queued_pods.PodInfo) -> str:
    """Return which models there are, and how to ask for a part of a name; nothing where that is not known."""
    hint = PART_OF_NAME if _parts_of(known.named, pod_info.request.conditions.models) else ""
    return f"{_there_are(known.named, known.others)}{hint}" if known.named else ""


def instances_there(known: known_models.Models, reason: Reason) -> str:
    """Return which MIG profiles there are, and how to ask for an instance where cards are asked for."""
    found = _there_are(known.profiles, known.other_profiles)
    return f"{found}: ask for {MIG_RESOURCE}" if found and reason is Reason.MIG_MODE else found


MIG_RESOURCE: Final = f"{names.NVIDIA_MIG_PREFIX}PROFILE"


def _there_are(named: Iterable[str], others: int) -> str:
    more = [f"{others} {'other' if others == 1 else 'others'}"] if others else []
    found = [*named, *more]
    verb = "is" if len(found) == 1 else "are"
    return f"there {verb} {wording.listed(found, most=len(found))}" if found else ""


def _parts_of(there: Iterable[str], models: Iterable[str]) -> bool:
    """Return whether any of these is no model that is known, but a part of the name of one that is there."""
    parts = [catalog.normal_model(one).casefold() for one in models if catalog.find(one) is None]
    return any(part in name.casefold() != part for name in there for part in parts)


# ---------------------------------------------------------------- reasons that outlast all pods

LASTING: Final[dict[Reason | None, Callable[[queued_pods.PodInfo], str]]] = {
    Reason.SCOPE_MISMATCH: lambda pod_info: f"too few cards are {arrangement.within(pod_info)}",
    Reason.NO_PARTITION: lambda pod_info: f"there is no {arrangement.partition(pod_info)}",
    Reason.PARTITIONS_HONORED: lambda pod_info: (
        f"there is no {arrangement.partition(pod_info)}, and whole cards are given in partitions only"
    ),
    Reason.NO_ROOT: lambda pod_info: f"too few {arrangement.joint(pod_info)} are on the same PCIe root",
}

# ---------------------------------------------------------------- reasons in a few words

# Reasons that read on into their detail.
FOLLOWED: Final = frozenset({Reason.TAINTED, Reason.INSUFFICIENT_RESOURCE})
TYPES: Final = {device_facts.GPU: "GPU"}


def briefly(reason: Reason, detail: str) -> str:
    """Return a reason and what it is about in a few words."""
    if reason is Reason.NO_DEVICE and detail:
        return f"no {wording.noun(detail, 2)}"
    if reason is Reason.TOO_FEW_CARDS and detail:
        return f"too few {wording.noun(detail, 2)}"
    joint = " " if reason in FOLLOWED else ": "
    return f"{registry.BRIEF[reason]}{joint}{wording.clipped(detail)}" if detail else registry.BRIEF[reason]


def unsuitable(reason: str) -> str:
    """Return brief words of a reason, and that it would last even if nothing were used."""
    too_small = reason == registry.BRIEF[Reason.TOO_SMALL]
    return f"{reason} for this pod" if too_small else f"{reason}, unsuitable for this pod"


def device(kind: str, minor: int) -> str:
    """Return a device by its number, as people at its node do."""
    return f"{TYPES.get(kind, kind)} {minor}"


def of_verdict(verdict: allocator.Verdict) -> str:
    """Return in a few words why a device does not serve, with figures where it is about how much there is."""
    reason = registry.BRIEF[verdict.reason]
    if verdict.reason is Reason.TOO_SMALL and verdict.total.memory < verdict.wanted.memory:
        has = wording.amount(Unit.BYTES, verdict.total.memory, up=False)
        return f"{unsuitable(reason)}: has {has}, {wording.amount(Unit.BYTES, verdict.wanted.memory)} wanted"
    figures = wording.shortage(one for one in cards.missing(verdict) if one.free > 0)
    if verdict.core_limit != requests.WHOLE and verdict.free.core < verdict.wanted.core:
        figures = ", ".join(filter(None, (figures, f"{verdict.core_limit} % may be promised")))
    if verdict.reason in cards.USED and figures:
        return f"{reason}: {figures}"
    return unsuitable(reason) if verdict.never_fits else reason
