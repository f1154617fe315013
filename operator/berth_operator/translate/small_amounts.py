"""Amounts of a card's memory that are so small that their author probably left out the unit.

`berth.dev/gpu-memory: 8` are eight bytes, and hundreds of such pods fit on one card. The policy
defines how small is too small when the pod is decided on. So only the written text is kept here,
and the unit that was probably meant: the largest with which a card may have so much.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Final

from berth_crds import aliases, names
from berth_operator.scheduling import policy, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.translate import container_asks, pod_limits, quantities, raw, refusals, resources

LARGEST_CARD: Final = 288 * aliases.GIB
MAX_NUMBER_LENGTH: Final = 20  # Characters; longer numbers lack no unit.
STEP: Final = 1024  # From one unit to the next, where the unit is not written.
UNITS: Final = (("Ki", "Mi", "Gi"), ("k", "M", "G"))  # Those of a family, the smallest first.


def find(pod: raw.Pod, request: requests.DeviceRequest) -> tuple[queued_pods.SmallAmount, ...]:
    """Return the amounts of a pod that a policy could find too small; only the first of very many."""
    found = itertools.chain(_of_containers(pod, request), _of_conditions(pod, request))
    return tuple(itertools.islice(found, pod_limits.MAX_FAULTS))


def _is_small(memory: int) -> bool:
    return 0 < memory < policy.MOST_MIN_MEMORY


def _of_containers(pod: raw.Pod, request: requests.DeviceRequest) -> Iterator[queued_pods.SmallAmount]:
    asks = {
        one.name: ask
        for one in request.containers
        for ask in one.asks
        if isinstance(ask, requests.Gpus) and _is_small(ask.memory)
    }
    for one in resources.gather(pod)[0] if asks else ():
        ask, amount = asks.get(one.name), one.amounts.get(names.GPU_MEMORY)
        if ask is not None and amount is not None:
            scale = container_asks.SCALES.get(amount.key, 1)
            text = _in_digits(amount.text) if scale > 1 else amount.text
            cards = 1 if amount.project else ask.count
            yield _written(f"{amount.place}: {text}", text, scale, ask.memory, cards)


def _in_digits(text: str) -> str:
    """Return a count in digits: the API server turns 1000 into `1k`."""
    try:
        count = quantities.exact(text)
    except ValueError:
        return text
    return str(count) if count.denominator == 1 else text


def _of_conditions(pod: raw.Pod, request: requests.DeviceRequest) -> Iterator[queued_pods.SmallAmount]:
    """Yield the small conditions on the memory of each card and of all cards of a node."""
    conditions, together = request.conditions, request.grouping.memory_together
    yield from _of_condition(pod, conditions.memory_at_least, names.MEMORY_AT_LEAST)
    free = conditions.free_memory_at_least
    yield from _of_condition(pod, free, names.FREE_MEMORY_AT_LEAST, aliases.GENIUS_MEMORY)
    yield from _of_condition(pod, together, names.MEMORY_TOTAL_AT_LEAST, aliases.GENIUS_MEMORY_TOTAL)


def _of_condition(pod: raw.Pod, memory: int, key: str, label: str = "") -> Iterator[queued_pods.SmallAmount]:
    """Yield a small condition on memory, which may stand in an annotation or in a label."""
    if not _is_small(memory):
        return
    meta = pod.metadata
    if key in meta.annotations:
        text, scale = meta.annotations[key].strip(), 1
        place = f"annotation {key}: {refusals.shown(text)}"
    else:
        text, scale = meta.labels.get(label, ""), aliases.MIB
        place = f"label {label}: {refusals.shown(text)}"
    if text != "0":  # Genius' label means more than its number, and every card has more than 0.
        yield _written(place, text, scale, memory)


def _written(place: str, text: str, scale: int, memory: int, cards: int = 1) -> queued_pods.SmallAmount:
    unit = container_asks.UNIT_NAMES[scale] if scale > 1 or text.isdecimal() else ""
    among = f"over {cards} cards" if cards > 1 else ""
    guess, guessed = _guess(text, scale, cards)
    return queued_pods.SmallAmount(
        " ".join(filter(None, (place, unit, among))), memory, guess, guessed // cards
    )


def _guess(text: str, scale: int, cards: int) -> tuple[str, int]:
    """Return the amount that was probably meant, and its bytes; empty and 0 if no unit makes sense."""
    largest = LARGEST_CARD * cards
    if scale > 1:
        number = int(text) if text.isdecimal() else 0
        fits = 0 < number * STEP * scale <= largest
        return (str(number * STEP), number * STEP * scale) if fits else ("", 0)
    match = quantities.PATTERN.fullmatch(text) if len(text) <= MAX_NUMBER_LENGTH else None
    if match is None or match["power"]:
        return "", 0
    suffix = match["suffix"] or ""
    family = next((units for units in UNITS if suffix in units), UNITS[0])
    for unit in reversed(family[family.index(suffix) + 1 if suffix in family else 0 :]):
        meant = math.floor(quantities.exact(f"{match['number']}{unit}"))
        if meant <= largest:
            return f"{match['number']}{unit}", meant
    return "", 0
