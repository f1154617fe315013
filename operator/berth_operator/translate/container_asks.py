"""What figures may stand together in one container, and what they ask for.

There are five ways to ask for GPUs: whole cards, percent of a card, measures of a card,
replicas, and MIG instances; one container uses one of them. Beside it there may be devices
of other types. Everything is judged container by container, never on the sum of a pod: two
containers of 60 percent each are two good requests. What makes no sense is refused with a
sentence that says what to write instead.

Measures are given for all cards together and asked of each: `gpu-core: 200` with
`gpu-memory-ratio: 200` is two whole cards. A ratio says by itself over how many cards it
goes; bytes do not, so several cards need `gpu.shared` then.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from berth_crds import aliases, names, schema_limits
from berth_crds.vocabulary import DeviceType
from berth_operator.scheduling.devices import requests
from berth_operator.translate import refusals
from berth_operator.translate.resources import Asked, Figure

WHOLE: Final = requests.WHOLE
MOST_MEMORY: Final = 2**50  # Bytes; no card comes near.

Figures = Mapping[str, Figure]
Asks = tuple[requests.Ask, ...]


class Mode(enum.StrEnum):
    """How the amount of a device of another type is meant; without one of these it is percent."""

    EVERY = "every"  # percent of every device of the node that meets the conditions
    COUNT = "count"  # so many devices, one percent of each
    WHOLE = "whole"  # so many devices, all of each


def asks(one: Asked, modes: Mapping[str, Mode]) -> Asks:
    """Read what one container asks for; raises Refused with the first thing that makes no sense."""
    figures = one.figures
    ways = [way for way in WAYS if any(map(way.covers, figures))]
    if len(ways) > 1:
        keys = [next(figure.key for means, figure in figures.items() if way.covers(means)) for way in ways]
        both = f"container {one.name} asks for both {' and '.join(keys)}"
        refusals.refuse(f"{both}; ask in one way only{_instead(figures)}")
    cards = ways[0].read(one.name, figures) if ways else ()
    parts = tuple(_parts(kind, figures[means], modes) for means, kind in PARTS.items() if means in figures)
    return cards + parts


def _instead(figures: Figures) -> str:
    """Return what to write for shares of several cards where percent of a card is asked for."""
    if figures.keys() - PARTS.keys() != {names.GPU, SHARED}:
        return ""
    text = figures[names.GPU].text
    return f": {CORE}: {text} and {RATIO}: {text} beside {figures[SHARED].key}"


# ---------------------------------------------------------------- ways that need one figure


def _whole_cards(container: str, figures: Figures) -> Asks:
    count = _count(figures[names.NVIDIA_GPU], "a number of whole cards")
    return (requests.cards(_bounded(container, count)),)


def _percent(container: str, figures: Figures) -> Asks:
    share = _share(figures[names.GPU], "card")
    if share > WHOLE:
        return (requests.cards(_bounded(container, share // WHOLE)),)
    return (requests.Gpus(1, core=share, ratio=share),)


def _replicas(container: str, figures: Figures) -> Asks:
    count = _count(figures[names.NVIDIA_GPU_SHARED], "a number of replicas")
    return (requests.Replicas(_bounded(container, count, "replicas")),)


def _instances(container: str, figures: Figures) -> Asks:
    found = {
        means.removeprefix(names.NVIDIA_MIG_PREFIX): _count(figure, "a number of MIG instances")
        for means, figure in sorted(figures.items())
        if means.startswith(names.NVIDIA_MIG_PREFIX)
    }
    _bounded(container, sum(found.values()), "MIG instances")
    return tuple(requests.Instances(profile, count) for profile, count in found.items())


# ---------------------------------------------------------------- measures

CORE, MEMORY, RATIO, SHARED = names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED

# What is wrong with a set of measures, by what it lacks or has too much of. All others are good.
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


def _measures(container: str, figures: Figures) -> Asks:
    """Read compute and memory for all cards together, and divide them among the cards."""
    said = frozenset(figures) & {CORE, MEMORY, RATIO, SHARED}
    _check(container, figures, said)
    count = _cards_meant(container, figures)
    core, ratio = _evenly(figures, CORE, count), _evenly(figures, RATIO, count)
    memory = _memory(figures[MEMORY], count) if MEMORY in said else 0
    return (requests.Gpus(count, core=core, memory=memory, ratio=ratio),)


def _check(container: str, figures: Figures, said: frozenset[str]) -> None:
    if {MEMORY, RATIO} <= said:
        both = f"{figures[MEMORY].key} and {figures[RATIO].key}"
        refusals.refuse(f"container {container}: {both} both say how much memory; write one of them")
    if said in INCOMPLETE:
        keys = {
            name: figures[means].key for name, means in (("core", CORE), ("shared", SHARED)) if means in said
        }
        refusals.refuse(f"container {container}: {INCOMPLETE[said].format(**keys)}")


def _cards_meant(container: str, figures: Figures) -> int:
    if SHARED in figures:
        return _bounded(container, _count(figures[SHARED], "a number of cards"))
    if RATIO in figures:
        return _bounded(container, max(1, _share(figures[RATIO], "card") // WHOLE))
    return 1


def _evenly(figures: Figures, means: str, count: int) -> int:
    if means not in figures:
        return 0
    figure = figures[means]
    if figure.value < 0:
        refusals.refuse(f"{figure.place}: {figure.text} is less than nothing")
    total = _count(figure, "a whole number of percent")
    if total > count * WHOLE:
        _too_much(figure, -(-total // WHOLE), 0 if count == 1 and SHARED not in figures else count)
    if total > WHOLE and total % WHOLE and SHARED not in figures:
        refusals.refuse(
            f"{figure.place}: {figure.text} is neither a part of one card nor whole cards; write 1 to 100 or "
            f"a multiple of 100, or add {SHARED}: {count} to divide it among {count} cards"
        )
    if total % count:
        refusals.refuse(f"{figure.place}: {figure.text} cannot be divided evenly among {count} cards")
    return total // count


def _too_much(figure: Figure, cards: int, count: int) -> NoReturn:
    if count:
        of_all = "of the card" if count == 1 else f"of each of {count} cards"
        refusals.refuse(f"{figure.place}: {figure.text} is more than 100 percent {of_all}")
    refusals.refuse(
        f"{figure.place}: {figure.text} is more than one card has; for {cards} cards add {SHARED}: {cards} "
        f"and ask for the compute and memory of all of them together"
    )


def _memory(figure: Figure, count: int) -> int:
    if figure.value < 0:
        refusals.refuse(f"{figure.place}: {figure.text} is not an amount of memory")
    each = -(-figure.value.numerator // (figure.value.denominator * count))
    if each > MOST_MEMORY:
        hint = _as_counted(figure, each)
        refusals.refuse(f"{figure.place}: {figure.text} is more memory than any card has{hint}")
    return each


UNITS: Final = {aliases.MIB: "MiB", aliases.GIB: "GiB"}
SCALES: Final = {row.key: row.scale for row in aliases.AMOUNTS if row.scale in UNITS}


def _as_counted(figure: Figure, each: int) -> str:
    """Return what to write where somebody wrote bytes under a key that counts MiB or GiB."""
    scale = SCALES.get(figure.key)
    if scale is None:
        return ""
    return f"; it counts {UNITS[scale]}, write {max(1, each // scale // scale)}"


# ---------------------------------------------------------------- devices of other types

PARTS: Final = {names.FPGA: DeviceType.FPGA, names.RDMA: DeviceType.RDMA}


def _parts(kind: DeviceType, figure: Figure, modes: Mapping[str, Mode]) -> requests.Parts:
    mode = modes.get(kind)
    if mode in {Mode.COUNT, Mode.WHOLE}:
        count = _count(figure, "a number of devices")
        if count > schema_limits.MOST_DEVICES:
            refusals.refuse(
                f"{figure.place}: {figure.text} is a number of devices, because of {names.APPLY}: "
                f"{kind}={mode}; no node has more than {schema_limits.MOST_DEVICES}"
            )
        return requests.Parts(kind.value, count, WHOLE if mode is Mode.WHOLE else 1)
    share = _share(figure, "device")
    if mode is Mode.EVERY and share > WHOLE:
        refusals.refuse(
            f"{figure.place}: {figure.text} asks for {share // WHOLE} devices, and {names.APPLY} for every "
            f"one; write 1 to 100, percent of each"
        )
    count = max(1, share // WHOLE)
    if count > schema_limits.MOST_DEVICES:
        refusals.refuse(
            f"{figure.place}: {figure.text} is {count} devices; "
            f"no node has more than {schema_limits.MOST_DEVICES}"
        )
    return requests.Parts(kind.value, count, share // count, every=mode is Mode.EVERY)


# ---------------------------------------------------------------- numbers


def _count(figure: Figure, what: str) -> int:
    if figure.value.denominator != 1 or figure.value < 0:
        refusals.refuse(f"{figure.place}: {figure.text} is not {what}")
    return int(figure.value)


def _share(figure: Figure, what: str) -> int:
    """Read a percentage of one device, or of several whole ones."""
    value = figure.value
    if value.denominator != 1 or value < 0 or (value > WHOLE and value % WHOLE):
        refusals.refuse(
            f"{figure.place}: {figure.text} is neither a percentage of one {what} (1 to 100) "
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


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """One way to ask for GPUs: whether it covers a meaning, and how it is read."""

    covers: Callable[[str], bool]
    read: Callable[[str, Figures], Asks]


WAYS: Final = (
    Way(lambda means: means == names.NVIDIA_GPU, _whole_cards),
    Way(lambda means: means == names.GPU, _percent),
    Way(lambda means: means in {CORE, MEMORY, RATIO, SHARED}, _measures),
    Way(lambda means: means == names.NVIDIA_GPU_SHARED, _replicas),
    Way(lambda means: means.startswith(names.NVIDIA_MIG_PREFIX), _instances),
)
