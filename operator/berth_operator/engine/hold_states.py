"""The life of a hold, as a table of its states and steps.

        assume            confirm             release
    free ----> assumed ------------> confirmed ------> free
                  |                     ^
                  |  forget / release   |  confirm (bound before we started, or by others)
                  +------> free --------+

`assume` is done before a Binding is sent, so that no later decision gives the same cards to another
pod; the watch confirms it, a clear refusal forgets it. A step that the table lacks raises and changes
nothing.
"""

import enum
from typing import Final


class State(enum.Enum):
    """Where the hold of a pod stands."""

    FREE = "free"
    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


class Step(enum.Enum):
    """What happens to the hold of a pod."""

    ASSUME = "assume"
    CONFIRM = "confirm"
    FORGET = "forget"
    RELEASE = "release"


TRANSITIONS: Final[dict[tuple[State, Step], State]] = {
    (State.FREE, Step.ASSUME): State.ASSUMED,
    (State.FREE, Step.CONFIRM): State.CONFIRMED,
    (State.ASSUMED, Step.CONFIRM): State.CONFIRMED,
    (State.ASSUMED, Step.FORGET): State.FREE,
    (State.ASSUMED, Step.RELEASE): State.FREE,
    (State.CONFIRMED, Step.CONFIRM): State.CONFIRMED,
    (State.CONFIRMED, Step.RELEASE): State.FREE,
}


class IllegalStep(Exception):
    """A step that the state of a hold does not allow."""


def after(state: State, step: Step, uid: str) -> State:
    """Return the state of a pod's hold after a step."""
    if (found := TRANSITIONS.get((state, step))) is None:
        raise IllegalStep(f"cannot {step.value} the hold of {uid}: it is {state.value}")
    return found
