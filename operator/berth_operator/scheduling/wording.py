"""How amounts, names and lists are written in every sentence.

What is free is rounded down and what is missing is rounded up, so that no text promises
more than there is. What people wrote is cut and cleaned before it is repeated.
"""

from collections.abc import Callable, Iterable
from typing import Final, assert_never

from berth_crds import card_part, device_types, text
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.deficits import CARDS, REPLICAS, Deficit, Unit
from berth_operator.scheduling.devices import requests

# The words of a reason for so many nodes, given the pod and the detail.
Words = Callable[[int, queued_pods.PodInfo, str], str]
LONGEST_NAME: Final = 80  # Of anything people wrote.
LISTED: Final = 3


def amount(unit: Unit, value: int, *, up: bool = True) -> str:
    """Return an amount with its unit."""
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
    """Return the name of what is counted, in the singular or plural."""
    if name in {CARDS, REPLICAS}:
        return name[:-1] if count == 1 else name
    if (described := device_types.BY_NAME.get(name)) is not None:
        return described.noun(count)
    kind = "instance" if name.startswith("MIG ") else "device"
    return f"{clipped(name)} {kind}" + ("" if count == 1 else "s")


def shortage(deficits: Iterable[Deficit]) -> str:
    """Return what is free and what is wanted, such as `3 cards free, 4 wanted`."""
    found = list(deficits)
    free = [_named(one, max(0, one.free)) for one in found]
    wanted = [amount(one.unit, one.wanted) for one in found]
    return f"{' and '.join(free)} free, {' and '.join(wanted)} wanted" if found else ""


def asked_for_less(deficit: Deficit, of: str | None = None) -> str:
    """Return that a pod would ask for what is free instead of what it wants."""
    now = amount(deficit.unit, deficit.free, up=False)
    what = f" {clipped(deficit.name)}" if of is None else of
    return f"it asked for {now} instead of {amount(deficit.unit, deficit.wanted)}{what}"


def _named(deficit: Deficit, free: int) -> str:
    given = amount(deficit.unit, free, up=False)
    name = noun(deficit.name, free) if deficit.unit is Unit.PIECES else clipped(deficit.name)
    return f"{given} {name}".strip()


def clipped(written: str) -> str:
    """Return what people wrote as one clean line, cut where it is too long for a sentence."""
    plain = text.line(written)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 1]}…"


def listed(names: Iterable[str], joint: str = "and", *, most: int = LISTED) -> str:
    """Return a list as people write it; a long one is cut."""
    found = [clipped(name) for name in names]
    if len(found) > most + 1:
        found = [*found[:most], f"{len(found) - most} more"]
    return f" {joint} ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


# ---------------------------------------------------------------- reasons of nodes


def invariant(words: str) -> Words:
    """Return words that are the same for one node and for many."""
    return nodes_that(words, words)


def nodes_that(one: str, many: str) -> Words:
    """Return words that only count the nodes."""
    return lambda nodes, _pod, _detail: f"{nodes} {one if nodes == 1 else many}"


def nodes_that_have(what: str) -> Words:
    """Return words for nodes that have something."""
    return nodes_that(f"has {what}", f"have {what}")


def with_detail(one: str, many: str) -> Words:
    """Return words that end with the detail."""
    return lambda nodes, _pod, detail: f"{nodes} {one if nodes == 1 else many} {clipped(detail)}".rstrip()


def with_brackets(words: str, what: str = "") -> Words:
    """Return words that end with the detail in brackets, perhaps with a word before it."""
    return lambda nodes, _pod, detail: f"{nodes} {words}" + (f" ({what}{clipped(detail)})" if detail else "")


def of_devices(what: str) -> Words:
    """Return words for nodes whose devices are the reason; without a detail these are cards."""

    def words(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
        return f"{have(nodes)} {what.format(noun(detail or CARDS, 2))}"

    return words


def are(count: int) -> str:
    """Return `1 is` or `2 are`."""
    return f"{count} is" if count == 1 else f"{count} are"


def have(count: int) -> str:
    """Return `1 has` or `2 have`."""
    return f"{count} has" if count == 1 else f"{count} have"


def cards_wanted(need: requests.Need) -> int:
    """Return how many cards a pod wants, for `fewer`: 0 where that depends on which parts fit on one card."""
    return 0 if need.shares and (need.whole_cards or len(need.shares) > 1) else max(need.min_cards, 1)


def fewer(than: int, thing: str) -> str:
    """Return that there are not enough; with 0, without saying how many were enough."""
    if than == 0:
        return f"too few {thing}s"
    return f"no {thing}" if than == 1 else f"fewer than {than} {thing}s"
