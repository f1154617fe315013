"""Who uses cards that nobody gave them, in words."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from berth_crds import text
from berth_operator.scheduling.devices import device_facts

LONGEST_COMMAND: Final = 48


def only_of(
    occupants: Iterable[device_facts.Occupant], titles: Collection[str]
) -> tuple[device_facts.Occupant, ...]:
    """Return them without the pods that are not among those of their node: an agent may name any pod."""
    return tuple(
        one if not one.title or one.title in titles else dataclasses.replace(one, title="")
        for one in occupants
    )


def words(occupants: Sequence[device_facts.Occupant], namespace: str | None = None) -> str:
    """Return who the first of these is, and how many pods or processes there are beside it.

    With a namespace, pods of other namespaces are not named: a user need not know what runs there.
    """
    users = tuple(dict.fromkeys(_user(one, namespace) for one in occupants))
    rest = len(users) - 1
    return f"{users[0]} and {rest} more" if rest > 0 else "".join(users)


def of_cards(cards: Iterable[Sequence[device_facts.Occupant]], namespace: str | None = None) -> str:
    """Return who uses some cards."""
    return words([one for each in cards for one in each], namespace)


def _user(one: device_facts.Occupant, namespace: str | None) -> str:
    if one.title:
        own = namespace is None or one.title.startswith(f"{namespace}/")
        return f"pod {text.name(one.title)}" if own else "a pod of another namespace"
    return (
        f"process {one.pid} ({text.name(one.command, most=LONGEST_COMMAND)})"
        if one.command
        else f"process {one.pid}"
    )
