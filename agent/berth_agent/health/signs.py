"""What is wrong with a card just now: standing signs in what it measures, and errors told of it.

A sign is a `Health` that the card would have if nothing else were known. Some are only
remarks: the card is healthy and somebody should do something about it when convenient.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth_agent import probe
from berth_agent.health import rules, xids
from berth_crds import schema_limits, vocabulary

Recovery = vocabulary.Recovery
Health = vocabulary.Health

# Of several signs the one that takes most to mend is told.
# What brings back a card that does not answer may be unknown; that it cools down is not enough.
SEVERITY: Final = (Recovery.NONE, None, Recovery.DRAIN, Recovery.RESET, Recovery.REBOOT, Recovery.REPLACE)

# What brings back a card that does not answer, by NVML's reason.
LOST: Final[Mapping[str, Recovery]] = {"GpuIsLost": Recovery.REBOOT, "ResetRequired": Recovery.RESET}

ASKED: Final[Mapping[Recovery, str]] = {
    Recovery.DRAIN: "the driver asks to drain the card and then to reset it",
    Recovery.RESET: "the driver asks to reset the card",
    Recovery.REBOOT: "the driver asks to reboot the node",
}

OF_XIDS: Final[Mapping[xids.Consequence, tuple[str, Recovery]]] = {
    xids.Consequence.RESET: ("XidCritical", Recovery.RESET),
    xids.Consequence.LOST: ("XidCritical", Recovery.REBOOT),
}


def is_bad(sign: probe.Health) -> bool:
    """Tell a sign that condemns from a remark."""
    return sign.verdict is not Health.HEALTHY


def worst(signs: Iterable[probe.Health]) -> probe.Health | None:
    """Give the sign that says most: one that condemns before a remark, then what is hardest to mend."""
    return max(signs, key=lambda sign: (is_bad(sign), severity(sign)), default=None)


def severity(sign: probe.Health) -> int:
    """Rank a sign by what it takes to mend it."""
    return SEVERITY.index(sign.recovery)


def of_lost(lost: probe.Lost) -> probe.Health:
    """Say what is wrong with a card that does not answer."""
    return probe.Health(Health.UNHEALTHY, lost.reason, message=lost.message, recovery=LOST.get(lost.reason))


def of_card(card: probe.Card, before: probe.Vitals | None) -> Iterator[probe.Health]:
    """Say what is wrong with a card that answers; `before` is what it measured the last time."""
    now = card.vitals
    return itertools.chain(_asked(now), _memory(now), _grown(now, before), _heat(now))


def of_xids(numbers: Iterable[int], chosen: rules.Rules) -> Iterator[probe.Health]:
    """Say what errors that were told of a card mean for it."""
    for number in filter(None, numbers):  # Zero is NVML's word for none.
        meant = OF_XIDS.get(chosen.consequence(number))
        if meant:
            reason, recovery = meant
            words = f"XID {number}: {xids.meaning(number).words}"
            yield probe.Health(Health.UNHEALTHY, reason, _listed(number), words, recovery)


def _listed(number: int) -> int | None:
    """Give a number that the schema takes as one of an XID."""
    return number if 1 <= number <= schema_limits.LARGEST_XID else None


def _asked(now: probe.Vitals) -> Iterator[probe.Health]:
    if now.recovery is not None and now.recovery in ASKED:
        yield probe.Health(
            Health.UNHEALTHY, "RecoveryNeeded", message=ASKED[now.recovery], recovery=now.recovery
        )


def _memory(now: probe.Vitals) -> Iterator[probe.Health]:
    if now.rows and now.rows.failed:
        words = "a bad row of memory could not be replaced, for there are no more to replace it by"
        yield probe.Health(Health.UNHEALTHY, "RowRemapFailed", message=words, recovery=Recovery.REPLACE)
    if (now.rows and now.rows.pending) or now.retirement_pending:
        words = "bad memory is replaced with the next reset; until then the card can be used"
        yield probe.Health(reason="ResetPending", message=words, recovery=Recovery.RESET)


def _grown(now: probe.Vitals, before: probe.Vitals | None) -> Iterator[probe.Health]:
    """Notice errors that were counted since the last look; a count that shrank began anew.

    Cards that replace bad rows contain such errors as well, and tell by an XID where they did not.
    """
    if before is None or now.errors_uncorrected is None or before.errors_uncorrected is None:
        return
    if now.rows is not None:
        return
    if now.errors_uncorrected > before.errors_uncorrected:
        yield probe.Health(
            Health.UNHEALTHY,
            "EccUncorrected",
            message="an error in memory could not be corrected",
            recovery=Recovery.RESET,
        )


def _heat(now: probe.Vitals) -> Iterator[probe.Health]:
    if now.temperature is not None and now.too_hot is not None and now.temperature >= now.too_hot:
        words = f"the card is so hot ({now.too_hot} degrees or more) that it slows itself down"
        yield probe.Health(Health.UNHEALTHY, "TooHot", message=words, recovery=Recovery.NONE)
