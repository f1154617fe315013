"""What the amounts of one container ask for, and which of them may be combined.

There are five ways to ask for GPUs: whole cards, percent of a card, measures of a card,
replicas, and MIG instances; one container uses one of them. Beside it there may be devices
of other types. Each container is read by itself, never the sum of a pod: two containers of
60 percent each are two valid requests. An invalid request is refused with a sentence that says
what to write instead.

Measures are written for all cards together and requested of each: `gpu-core: 200` with
`gpu-memory-ratio: 200` is two whole cards. A ratio implies the number of
cards; bytes do not, so several cards need `gpu.shared` then.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from berth_crds import aliases, device_types, names, schema_limits
from berth_operator.scheduling.devices import requests
from berth_operator.translate import refusals
from berth_operator.translate.resources import ContainerAmounts, RequestedAmount

WHOLE: Final = requests.WHOLE

ResourceAmounts = Mapping[str, RequestedAmount]
Asks = tuple[requests.Ask, ...]


class Mode(enum.StrEnum):
    """What the amount of a device of another type counts; without a mode it is percent."""

    EVERY = "every"  # percent of every device of the node that meets the conditions
    COUNT = "count"  # so many devices, one percent of each
    WHOLE = "whole"  # so many devices, all of each


def asks(container: ContainerAmounts, modes: Mapping[str, Mode]) -> Asks:
    """Return what one container asks for; raise RefusalError at the first invalid amount."""
    amounts = container.amounts
    styles = [(covers, read) for covers, read in REQUEST_STYLES if any(map(covers, amounts))]
    if len(styles) > 1:
        keys = [
            next(amount.key for resource, amount in amounts.items() if covers(resource))
            for covers, _ in styles
        ]
        both = f"container {container.name} asks for both {' and '.join(keys)}"
        refusals.refuse(f"{both}; ask in one way only{_instead(amounts)}")
    cards = [ask for _, read in styles for ask in read(container.name, amounts)]
    others = [
        _of_type(found, amounts[resource], modes)
        for resource, found in device_types.BY_RESOURCE.items()
        if resource in amounts
    ]
    return (*cards, *others)


def _instead(amounts: ResourceAmounts) -> str:
    """Return what to write for shares of several cards instead of a percentage of one."""
    if amounts.keys() - device_types.BY_RESOURCE.keys() != {names.GPU, SHARED}:
        return ""
    text = amounts[names.GPU].text
    return f": {CORE}: {text} and {RATIO}: {text} beside {amounts[SHARED].key}"


# ---------------------------------------------------------------- styles of a single amount


def _whole_cards(container: str, amounts: ResourceAmounts) -> Asks:
    count = _count(amounts[names.NVIDIA_GPU], "a number of whole cards")
    if count > schema_limits.MOST_DEVICES and count % WHOLE == 0:
        # As Koordinator's own gpu is written.
        refusals.refuse(
            f"container {container} asks for {count} cards; {names.NVIDIA_GPU} counts whole cards: "
            f"write {count // WHOLE}, or {names.GPU}: {count}"
        )
    return (requests.cards(_bounded(container, count)),)


def _percent(container: str, amounts: ResourceAmounts) -> Asks:
    share = _share(amounts[names.GPU], "card")
    if share > WHOLE:
        return (requests.cards(_bounded(container, share // WHOLE)),)
    return (requests.Gpus(1, core=share, ratio=share),)


def _replicas(container: str, amounts: ResourceAmounts) -> Asks:
    count = _count(amounts[names.NVIDIA_GPU_SHARED], "a number of replicas")
    return (requests.Replicas(_bounded(container, count, "replicas")),)


def _instances(container: str, amounts: ResourceAmounts) -> Asks:
    found = {
        resource.removeprefix(names.NVIDIA_MIG_PREFIX): _count(amount, "a number of MIG instances")
        for resource, amount in sorted(amounts.items())
        if resource.startswith(names.NVIDIA_MIG_PREFIX)
    }
    _bounded(container, sum(found.values()), "MIG instances")
    return tuple(requests.Instances(profile, count) for profile, count in found.items())


# ---------------------------------------------------------------- measures

CORE, MEMORY, RATIO, SHARED = names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED

# What is wrong with a set of measures that lacks one. All others are valid.
INCOMPLETE: Final = {
    frozenset({CORE}): (
        "{core} says nothing of memory; add berth.dev/gpu-memory or berth.dev/gpu-memory-ratio"
    ),
    frozenset({SHARED}): (
        "{shared} says over how many cards, but not how much of them; add berth.dev/gpu-memory or "
        "berth.dev/gpu-memory-ratio"
    ),
    frozenset({SHARED, CORE}): (
        "{core} and {shared} say nothing of memory; add berth.dev/gpu-memory or berth.dev/gpu-memory-ratio"
    ),
}


def _measures(container: str, amounts: ResourceAmounts) -> Asks:
    """Return compute and memory of each card; they are written for all cards together."""
    resources = frozenset(amounts) & {CORE, MEMORY, RATIO, SHARED}
    _check(container, amounts, resources)
    count = _cards_meant(container, amounts)
    core, ratio = _evenly(amounts, CORE, count), _evenly(amounts, RATIO, count)
    return (
        requests.Gpus(
            count,
            core=core,
            memory=_memory(amounts[MEMORY], count) if MEMORY in resources else 0,
            ratio=ratio,
        ),
    )


def _check(container: str, amounts: ResourceAmounts, resources: frozenset[str]) -> None:
    if {MEMORY, RATIO} <= resources:
        both = f"{amounts[MEMORY].key} and {amounts[RATIO].key}"
        refusals.refuse(f"container {container}: {both} both say how much memory; write one of them")
    if resources in INCOMPLETE:
        keys = {
            word: amounts[resource].key
            for word, resource in (("core", CORE), ("shared", SHARED))
            if resource in resources
        }
        refusals.refuse(f"container {container}: {INCOMPLETE[resources].format(**keys)}")


def _cards_meant(container: str, amounts: ResourceAmounts) -> int:
    if SHARED in amounts:
        return _bounded(container, _count(amounts[SHARED], "a number of cards"))
    if RATIO in amounts:
        return _bounded(container, max(1, _share(amounts[RATIO], "card") // WHOLE))
    return 1


def _evenly(amounts: ResourceAmounts, resource: str, count: int) -> int:
    if resource not in amounts:
        return 0
    amount = amounts[resource]
    if amount.value < 0:
        refusals.refuse(f"{amount.place}: {amount.text} is less than nothing")
    total = _count(amount, "a whole number of percent")
    if total > count * WHOLE:
        _too_much(amount, -(-total // WHOLE), 0 if count == 1 and SHARED not in amounts else count)
    if total > WHOLE and total % WHOLE and SHARED not in amounts:
        refusals.refuse(
            f"{amount.place}: {amount.text} is neither a part of one card nor whole cards; write 1 to 100 or "
            f"a multiple of 100, or add {SHARED}: {count} to divide it among {count} cards"
        )
    if total % count:
        refusals.refuse(f"{amount.place}: {amount.text} cannot be divided evenly among {count} cards")
    return total // count


def _too_much(amount: RequestedAmount, cards: int, count: int) -> NoReturn:
    if count:
        of_all = "of the card" if count == 1 else f"of each of {count} cards"
        refusals.refuse(f"{amount.place}: {amount.text} is more than 100 percent {of_all}")
    refusals.refuse(
        f"{amount.place}: {amount.text} is more than one card has; for {cards} cards add {SHARED}: {cards} "
        f"and ask for the compute and memory of all of them together"
    )


def _memory(amount: RequestedAmount, count: int) -> int:
    if amount.value < 0:
        refusals.refuse(f"{amount.place}: {amount.text} is not an amount of memory")
    each = -(-amount.value.numerator // (amount.value.denominator * count))
    if each > schema_limits.LARGEST_MEMORY:
        hint = _as_counted(amount, each)
        refusals.refuse(f"{amount.place}: {amount.text} is more memory than any card has{hint}")
    return each


UNIT_NAMES: Final = {1: "bytes", aliases.MIB: "MiB", aliases.GIB: "GiB"}
SCALES: Final = {row.key: row.scale for row in aliases.AMOUNTS if row.means == names.GPU_MEMORY}


def _as_counted(amount: RequestedAmount, each: int) -> str:
    """Return what to write where bytes are written under a key that counts MiB or GiB."""
    scale = SCALES.get(amount.key, 1)
    return "" if scale == 1 else f"; it counts {UNIT_NAMES[scale]}, write {max(1, each // scale // scale)}"


# ---------------------------------------------------------------- devices of other types


def _of_type(
    asked: device_types.TypeDescription, amount: RequestedAmount, modes: Mapping[str, Mode]
) -> requests.OtherDevices:
    return _parts(asked.name, amount, modes) if asked.shared else _whole(asked, amount)


def _whole(asked: device_types.TypeDescription, amount: RequestedAmount) -> requests.OtherDevices:
    count = _count(amount, f"a number of {asked.noun(2)}")
    if count > schema_limits.MOST_DEVICES:
        refusals.refuse(
            f"{amount.place}: {amount.text} is {count} {asked.noun(count)}; "
            f"no node has more than {schema_limits.MOST_DEVICES}"
        )
    return requests.OtherDevices(asked.name, count)


def _parts(type_: str, amount: RequestedAmount, modes: Mapping[str, Mode]) -> requests.OtherDevices:
    mode = modes.get(type_)
    if mode in {Mode.COUNT, Mode.WHOLE}:
        count = _count(amount, "a number of devices")
        if count > schema_limits.MOST_DEVICES:
            refusals.refuse(
                f"{amount.place}: {amount.text} is a number of devices, because of {names.APPLY}: "
                f"{type_}={mode}; no node has more than {schema_limits.MOST_DEVICES}"
            )
        return requests.OtherDevices(type_, count, WHOLE if mode is Mode.WHOLE else 1)
    share = _share(amount, "device")
    if mode is Mode.EVERY and share > WHOLE:
        refusals.refuse(
            f"{amount.place}: {amount.text} asks for {share // WHOLE} devices, and {names.APPLY} for every "
            f"one; write 1 to 100, percent of each"
        )
    count = max(1, share // WHOLE)
    if count > schema_limits.MOST_DEVICES:
        refusals.refuse(
            f"{amount.place}: {amount.text} is {count} devices; "
            f"no node has more than {schema_limits.MOST_DEVICES}"
        )
    return requests.OtherDevices(type_, count, share // count, every=mode is Mode.EVERY)


# ---------------------------------------------------------------- numbers


def _count(amount: RequestedAmount, what: str) -> int:
    if amount.value.denominator != 1 or amount.value < 0:
        refusals.refuse(f"{amount.place}: {amount.text} is not {what}")
    return int(amount.value)


def _share(amount: RequestedAmount, what: str) -> int:
    """Return a percentage of one device, or of several whole ones."""
    value = amount.value
    if value.denominator != 1 or value < 0 or (value > WHOLE and value % WHOLE):
        refusals.refuse(
            f"{amount.place}: {amount.text} is neither a percentage of one {what} (1 to 100) "
            f"nor whole {what}s (a multiple of 100)"
        )
    return int(value)


def _bounded(container: str, count: int, what: str = "cards") -> int:
    if count > schema_limits.MOST_DEVICES:
        refusals.refuse(
            f"container {container} asks for {count} {what}; "
            f"no node has more than {schema_limits.MOST_DEVICES}"
        )
    return count


# The ways to request GPUs: whether one covers a resource, and how its amounts are read.
REQUEST_STYLES: Final[Sequence[tuple[Callable[[str], bool], Callable[[str, ResourceAmounts], Asks]]]] = (
    (lambda resource: resource == names.NVIDIA_GPU, _whole_cards),
    (lambda resource: resource == names.GPU, _percent),
    (lambda resource: resource in {CORE, MEMORY, RATIO, SHARED}, _measures),
    (lambda resource: resource == names.NVIDIA_GPU_SHARED, _replicas),
    (lambda resource: resource.startswith(names.NVIDIA_MIG_PREFIX), _instances),
)
