"""The words for everything that an explanation holds: amounts, reasons, changes.

All wording stands here, as tables, so that a sentence is changed in one place and every
reason is known to have one. What is free is rounded down and what is missing is rounded
up, so that no text promises more than there is.
"""

from collections.abc import Callable, Iterable
from typing import Final, assert_never

from berth_crds import aliases, card_part, catalog, names, text
from berth_operator.scheduling import known_models, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, facts, requests
from berth_operator.scheduling.explain import diagnosis
from berth_operator.scheduling.explain.findings import Measure, Unit
from berth_operator.scheduling.nodes import facts as nodes

LONGEST_NAME: Final = 80  # Of anything people wrote.
LISTED: Final = 3

# ---------------------------------------------------------------- amounts


def amount(unit: Unit, value: int, *, up: bool = True) -> str:
    """Write an amount with its unit."""
    match unit:
        case Unit.BYTES:
            return card_part.memory_amount(value, up=up)
        case Unit.THOUSANDTHS:
            return card_part.figure(value, 1000, up=up)
        case Unit.PERCENT:
            return f"{value} %"
        case Unit.PIECES:
            return str(value)
    assert_never(unit)


def noun(name: str, count: int) -> str:
    """Name what is counted."""
    if name in {diagnosis.CARDS, diagnosis.REPLICAS}:
        return name[:-1] if count == 1 else name
    kind = "instance" if name.startswith("MIG ") else "device"
    return f"{short(name)} {kind}" + ("" if count == 1 else "s")


def shortage(measures: Iterable[Measure]) -> str:
    """Write what is free and what is wanted, such as `3 cards free, 4 wanted`."""
    found = list(measures)
    free = [_named(one, max(0, one.free)) for one in found]
    wanted = [amount(one.unit, one.wanted) for one in found]
    return f"{' and '.join(free)} free, {' and '.join(wanted)} wanted" if found else ""


def _named(measure: Measure, free: int) -> str:
    given = amount(measure.unit, free, up=False)
    name = noun(measure.name, free) if measure.unit is Unit.PIECES else short(measure.name)
    return f"{given} {name}".strip()


def short(said: str) -> str:
    """Make what people wrote one clean line, and cut it where it is too long for a sentence."""
    plain = text.line(said)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 1]}…"


def listed(names: Iterable[str], joint: str = "and", *, most: int = LISTED) -> str:
    """Write a list as people do; a long one is cut."""
    found = [short(name) for name in names]
    if len(found) > most + 1:
        found = [*found[:most], f"{len(found) - most} more"]
    return f" {joint} ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


# ---------------------------------------------------------------- reasons of nodes

Words = Callable[[int, queued_pods.Candidate, str], str]


def _say(one: str, many: str) -> Words:
    return lambda n, _c, _d: f"{n} {one if n == 1 else many}"


def _has(what: str) -> Words:
    return _say(f"has {what}", f"have {what}")


def _have(count: int) -> str:
    return f"{count} has" if count == 1 else f"{count} have"


def _too_few(n: int, candidate: queued_pods.Candidate, detail: str) -> str:
    if detail == diagnosis.REPLICAS:
        wanted = candidate.request.need.replicas
        instead = f" ({names.NVIDIA_GPU} asks for a whole card)" if wanted == 1 else ""
        return f"{_have(n)} {_fewer(wanted, 'replica')} of shared cards{instead}"
    if detail:
        return f"{_have(n)} too few {noun(detail, 2)}"
    count = max(candidate.request.need.least, 1)
    return f"{_have(n)} {_fewer(count, 'card')}"


def _taken(n: int, candidate: queued_pods.Candidate, detail: str) -> str:
    """Return what is all given out; without a detail it is the cards."""
    if detail:
        return f"{_have(n)} too few free {noun(detail, 2)}"
    need, narrowed = candidate.request.need, candidate.request.conditions != requests.ANY_CARD
    if need.shares:
        enough = f" with enough free{' among those asked for' if narrowed else ''}"
        return f"{_have(n)} {_fewer(0 if need.whole or len(need.shares) > 1 else need.least, 'card')}{enough}"
    return f"{_have(n)} {_fewer(0 if narrowed else need.least, 'free card')}"


def _fewer(than: int, thing: str) -> str:
    """Write that there are not enough; with 0, without saying how many were enough."""
    if than == 0:
        return f"too few {thing}s"
    return f"no {thing}" if than == 1 else f"fewer than {than} {thing}s"


def _wrong(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    return f"{_have(n)} {_fewer(max(candidate.request.need.least, 1), 'card')} {models(candidate)}"


def models(candidate: queued_pods.Candidate) -> str:
    """Return which models a pod accepts, as it wrote them."""
    asked = candidate.request.conditions
    parts = []
    if asked.models:
        parts.append(f"of model {listed(asked.as_written(asked.models), 'or')}")
    if asked.avoid_models:
        parts.append(f"other than {listed(asked.as_written(asked.avoid_models), 'or')}")
    if asked.pattern:
        parts.append(f"whose model matches {short(asked.pattern)}")
    if asked.avoid_pattern:
        parts.append(f"whose model does not match {short(asked.avoid_pattern)}")
    return " and ".join(parts) or "of the wanted model"


NOWHERE: Final = "no node has any of them"
PART_OF_NAME: Final = f"; {names.MODEL} wants the whole name, {names.MODEL_PATTERN} a part of it"


def there(known: known_models.Models, candidate: queued_pods.Candidate) -> str:
    """Return which models there are, and how to ask for a part of a name; nothing where that is not told."""
    hint = PART_OF_NAME if _parts_of(known.named, candidate.request.conditions.models) else ""
    return f"{_there_are(known.named, known.others)}{hint}" if known.named else ""


def instances_there(known: known_models.Models, reason: Reason) -> str:
    """Return which MIG profiles there are, and to whoever wants cards, how to ask for an instance."""
    found = _there_are(known.profiles, known.other_profiles)
    return f"{found}: ask for {MIG_RESOURCE}" if found and reason is Reason.MIG_MODE else found


MIG_RESOURCE: Final = f"{names.NVIDIA_MIG_PREFIX}PROFILE"


def _there_are(named: Iterable[str], others: int) -> str:
    more = [f"{others} {'other' if others == 1 else 'others'}"] if others else []
    found = [*named, *more]
    verb = "is" if len(found) == 1 else "are"
    return f"there {verb} {listed(found, most=len(found))}" if found else ""


def _parts_of(there: Iterable[str], models: Iterable[str]) -> bool:
    """Return whether any of these is no model that is known, but a part of the name of one that is there."""
    parts = [catalog.normal_model(one).casefold() for one in models if catalog.find(one) is None]
    return any(part in name.casefold() != part for name in there for part in parts)


def _no_such_instance(n: int, candidate: queued_pods.Candidate, detail: str) -> str:
    counts = (one.count for one in candidate.request.need.instances if one.profile == detail)
    return f"{_have(n)} {_fewer(next(counts, 0), noun(f'MIG {detail}'.strip(), 1))}"


def _small(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    return f"{_have(n)} too few cards{large(candidate)}"


def large(candidate: queued_pods.Candidate) -> str:
    """Return how large a card must be."""
    request = candidate.request
    least = max([request.conditions.memory_at_least, *(one.memory for one in request.need.shares)])
    return f" with at least {amount(Unit.BYTES, least)}" if least else " that are large enough"


def _far(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    return f"{_have(n)} too few free cards {_within(candidate)}"


def _within(candidate: queued_pods.Candidate) -> str:
    return f"within one {SCOPES.get(candidate.request.manner.scope or '', 'scope')}"


SCOPES: Final = {"numa": "NUMA node", "pcie": "PCIe root", "nvlink": "NVLink group", "node": "node"}


def _no_partition(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    return f"{_have(n)} no free NVLink partition of {candidate.request.need.whole} cards"


def _no_root(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    return f"{_have(n)} too few free {_joint(candidate)} on the same PCIe root"


def _joint(candidate: queued_pods.Candidate) -> str:
    return listed(candidate.request.manner.joint) or "devices"


def _with_detail(one: str, many: str) -> Words:
    return lambda n, _c, detail: f"{n} {one if n == 1 else many} {short(detail)}".rstrip()


def _lacking(n: int, _candidate: queued_pods.Candidate, detail: str) -> str:
    if detail == nodes.PODS:
        return f"{_have(n)} no room for another pod"
    meant = aliases.meant(detail)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"{n} {'lacks' if n == 1 else 'lack'} {short(detail)}{hint}"


def _in_replicas(n: int, candidate: queued_pods.Candidate, _detail: str) -> str:
    need = candidate.request.need
    given = "given out only as time-sliced or MPS replicas"
    return f"{_have(n)} cards that are {given if need.whole or need.shares else 'shared in another way'}"


def _unread(n: int, _candidate: queued_pods.Candidate, detail: str) -> str:
    cards = "its cards" if n == 1 else "their cards"
    return f"{n} cannot read {cards}" + (f" ({short(detail)})" if detail else "")


def _unnamed(n: int, _candidate: queued_pods.Candidate, detail: str) -> str:
    return f"{_have(n)} cards held by pods without a readable allocation" + (
        f" ({short(detail)})" if detail else ""
    )


REASONS: Final[dict[Reason, Words]] = {
    Reason.INVALID_REQUEST: _say("cannot serve a request for nothing", "cannot serve a request for nothing"),
    Reason.UNSUPPORTED_REQUEST: _say(
        "cannot serve this kind of request", "cannot serve this kind of request"
    ),
    Reason.UNSUPPORTED_CONSTRAINT: _say(
        "cannot be judged by a constraint that is not supported",
        "cannot be judged by a constraint that is not supported",
    ),
    Reason.TOO_MUCH_TOGETHER: _say("cannot serve what was not kept", "cannot serve what was not kept"),
    Reason.UNSCHEDULABLE: _say("is cordoned", "are cordoned"),
    Reason.TAINTED: _with_detail("has the untolerated taint", "have the untolerated taint"),
    Reason.SELECTOR_MISMATCH: _say(
        "does not match the node selector or affinity", "do not match the node selector or affinity"
    ),
    Reason.INSUFFICIENT_RESOURCE: _lacking,
    Reason.NOT_PUBLISHED: _say(
        "has no Device: no agent publishes cards there", "have no Device: no agent publishes cards there"
    ),
    Reason.NO_DEVICE: lambda n, _c, d: f"{_have(n)} no {noun(d, 2) if d else 'cards'}",
    Reason.SILENT: _say("has a silent agent", "have silent agents"),
    Reason.SOURCE_FAILED: _unread,
    Reason.TOO_FEW_CARDS: _too_few,
    Reason.MODEL_MISMATCH: _wrong,
    Reason.UNHEALTHY: lambda n, _c, d: f"{_have(n)} too few healthy {noun(d or diagnosis.CARDS, 2)}",
    Reason.CORDONED: lambda n, _c, d: f"{_have(n)} cordoned {noun(d or diagnosis.CARDS, 2)}",
    Reason.OCCUPIED: lambda n, _c, d: f"{_have(n)} {noun(d or diagnosis.CARDS, 2)} occupied by strangers",
    Reason.DUPLICATE_UUID: lambda n, _c, d: (
        f"{_have(n)} {noun(d or diagnosis.CARDS, 2)} whose uuid is published twice"
    ),
    Reason.WRONG_RECORD: lambda n, _c, d: (
        f"{_have(n)} {noun(d or diagnosis.CARDS, 2)} kept for a pod whose record is wrong"
    ),
    Reason.MIG_MODE: _has("cards in MIG mode"),
    Reason.WITHHELD: _unnamed,
    Reason.FULL: _taken,
    Reason.EXCLUDED: _has("too few cards that are not excluded"),
    Reason.NOT_INCLUDED: _has("too few of the listed cards"),
    Reason.TOO_SMALL: _small,
    Reason.SHARING_MODE: _in_replicas,
    Reason.PROFILE_MISMATCH: _no_such_instance,
    Reason.LABEL_MISMATCH: lambda n, _c, d: f"{_have(n)} too few {noun(d, 2)} with the labels asked for",
    Reason.IN_USE: lambda n, _c, d: f"{_have(n)} too few {noun(d or diagnosis.CARDS, 2)} that nobody uses",
    Reason.PARTLY_USED: lambda n, _c, d: (
        f"{_have(n)} too few {noun(d or diagnosis.CARDS, 2)} that nobody shares"
    ),
    Reason.NO_INSTANCE: lambda n, _c, d: f"{_have(n)} too few free {noun(f'MIG {d}'.strip(), 2)}",
    Reason.NO_FUNCTION: lambda n, _c, d: f"{_have(n)} too few free virtual functions of {noun(d, 2)}",
    Reason.SCOPE_MISMATCH: _far,
    Reason.NO_PARTITION: _no_partition,
    Reason.NO_ROOT: _no_root,
    Reason.UNDECIDED: _say(
        "was not fully evaluated: search budget", "were not fully evaluated: search budget"
    ),
    Reason.NO_NODES: lambda _n, _c, _d: "there are no nodes",
}

# ---------------------------------------------------------------- reasons that outlast all pods

LASTING: Final[dict[Reason | None, Callable[[queued_pods.Candidate], str]]] = {
    Reason.SCOPE_MISMATCH: lambda candidate: f"too few cards are {_within(candidate)}",
    Reason.NO_PARTITION: lambda candidate: f"no NVLink partition has {candidate.request.need.whole} cards",
    Reason.NO_ROOT: lambda candidate: f"too few {_joint(candidate)} are on the same PCIe root",
}

# ---------------------------------------------------------------- reasons in a few words

BRIEFLY: Final[dict[Reason, str]] = {
    Reason.INVALID_REQUEST: "asked for nothing",
    Reason.UNSUPPORTED_REQUEST: "request not supported",
    Reason.UNSUPPORTED_CONSTRAINT: "constraint not supported",
    Reason.TOO_MUCH_TOGETHER: "request not kept",
    Reason.UNSCHEDULABLE: "cordoned",
    Reason.TAINTED: "taint",
    Reason.SELECTOR_MISMATCH: "node selector or affinity",
    Reason.INSUFFICIENT_RESOURCE: "lacks",
    Reason.NOT_PUBLISHED: "no Device",
    Reason.NO_DEVICE: "no cards",
    Reason.SILENT: "silent agent",
    Reason.SOURCE_FAILED: "cannot read its cards",
    Reason.TOO_FEW_CARDS: "too few cards",
    Reason.MODEL_MISMATCH: "other model",
    Reason.UNHEALTHY: "unhealthy",
    Reason.CORDONED: "cordoned",
    Reason.OCCUPIED: "occupied by strangers",
    Reason.DUPLICATE_UUID: "published twice",
    Reason.WRONG_RECORD: "kept for a pod whose record is wrong",
    Reason.MIG_MODE: "in MIG mode",
    Reason.WITHHELD: "held without a readable allocation",
    Reason.FULL: "not enough free",
    Reason.EXCLUDED: "excluded",
    Reason.NOT_INCLUDED: "not listed",
    Reason.TOO_SMALL: "too small",
    Reason.SHARING_MODE: "shared in another way",
    Reason.PROFILE_MISMATCH: "no such instance",
    Reason.LABEL_MISMATCH: "other labels",
    Reason.IN_USE: "in use",
    Reason.PARTLY_USED: "partly used",
    Reason.NO_INSTANCE: "no free instance",
    Reason.NO_FUNCTION: "no free virtual function",
    Reason.SCOPE_MISMATCH: "too few close together",
    Reason.NO_PARTITION: "no free partition",
    Reason.NO_ROOT: "not on the same PCIe root",
    Reason.UNDECIDED: "not fully evaluated",
    Reason.NO_NODES: "no nodes",
}

# Reasons that read on into their detail.
FOLLOWED: Final = frozenset({Reason.TAINTED, Reason.INSUFFICIENT_RESOURCE})
TYPES: Final = {facts.GPU: "GPU"}


def briefly(reason: Reason, detail: str) -> str:
    """Name a reason and what it is about in a few words."""
    if reason is Reason.NO_DEVICE and detail:
        return f"no {noun(detail, 2)}"
    joint = " " if reason in FOLLOWED else ": "
    return f"{BRIEFLY[reason]}{joint}{short(detail)}" if detail else BRIEFLY[reason]


def device(kind: str, minor: int) -> str:
    """Name a device by its number, as people at its node do."""
    return f"{TYPES.get(kind, kind)} {minor}"


def against(verdict: allocator.Verdict) -> str:
    """Return in a few words why a device does not serve, with figures where it is about how much there is."""
    reason = BRIEFLY[verdict.reason]
    if verdict.reason is Reason.TOO_SMALL and verdict.total.memory < verdict.wanted.memory:
        has = amount(Unit.BYTES, verdict.total.memory, up=False)
        return f"{reason}: has {has}, {amount(Unit.BYTES, verdict.wanted.memory)} wanted, never fits"
    figures = shortage(one for one in diagnosis.missing(verdict) if one.free > 0)
    if verdict.reason in diagnosis.USED and figures:
        return f"{reason}: {figures}"
    return f"{reason}, never fits" if verdict.never else reason
