"""The problems of a card just now: by what it measures, and by the errors that its driver reports.

A problem is the `DeviceHealth` that the card would have if nothing else were known. Some are only
remarks: the card is healthy, and people should do something about it when convenient.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth_agent import probe
from berth_agent.health import health_rules, xid_table
from berth_crds import schema_limits
from berth_crds.vocabulary import Health, Recovery

# Of several problems the one that takes most to repair is published. None, an unknown recovery,
# is more than a card that only has to cool down.
SEVERITY: Final = (Recovery.NONE, None, Recovery.DRAIN, Recovery.RESET, Recovery.REBOOT, Recovery.REPLACE)

# What brings back a card that does not answer, by NVML's reason.
RECOVERY_OF_LOST: Final[Mapping[str, Recovery]] = {
    "GpuIsLost": Recovery.REBOOT,
    "ResetRequired": Recovery.RESET,
}

REQUESTED_BY_DRIVER: Final[Mapping[Recovery, str]] = {
    Recovery.DRAIN: "the driver asks to drain the card and then to reset it",
    Recovery.RESET: "the driver asks to reset the card",
    Recovery.REBOOT: "the driver asks to reboot the node",
}

XID_PROBLEMS: Final[Mapping[xid_table.Consequence, tuple[str, Recovery]]] = {
    xid_table.Consequence.RESET: ("XidCritical", Recovery.RESET),
    xid_table.Consequence.LOST: ("XidCritical", Recovery.REBOOT),
}


def is_unhealthy(problem: probe.DeviceHealth) -> bool:
    """Whether a problem makes the card unhealthy; otherwise it is a remark."""
    return problem.state is not Health.HEALTHY


def worst(found: Iterable[probe.DeviceHealth]) -> probe.DeviceHealth | None:
    """Return the worst problem: one that makes the card unhealthy, then the one that is hardest to repair."""
    return max(found, key=lambda problem: (is_unhealthy(problem), severity(problem)), default=None)


def severity(problem: probe.DeviceHealth) -> int:
    """Return the rank of a problem by what it takes to repair it."""
    return SEVERITY.index(problem.recovery)


def of_lost(lost: probe.LostCard) -> probe.DeviceHealth:
    """Return the problem of a card that does not answer."""
    return probe.DeviceHealth(
        Health.UNHEALTHY, lost.reason, message=lost.message, recovery=RECOVERY_OF_LOST.get(lost.reason)
    )


def of_card(card: probe.Card, before: probe.Measurements | None) -> Iterator[probe.DeviceHealth]:
    """Yield the problems of a card that answers; `before` is what it measured the last time."""
    now = card.measurements
    return itertools.chain(_requested(now), _memory(now), _new_errors(now, before), _heat(now))


def of_xids(numbers: Iterable[int], rules: health_rules.HealthRules) -> Iterator[probe.DeviceHealth]:
    """Yield the problems that follow from XIDs of one card."""
    for number in filter(None, numbers):  # Zero is no XID.
        if found := XID_PROBLEMS.get(rules.consequence(number)):
            reason, recovery = found
            message = f"XID {number}: {xid_table.meaning(number).text}"
            yield probe.DeviceHealth(Health.UNHEALTHY, reason, _published(number), message, recovery)


def _published(number: int) -> int | None:
    """Return a number if the schema takes it as an XID."""
    return number if 1 <= number <= schema_limits.LARGEST_XID else None


def _requested(now: probe.Measurements) -> Iterator[probe.DeviceHealth]:
    if now.recovery is not None and now.recovery in REQUESTED_BY_DRIVER:
        yield probe.DeviceHealth(
            Health.UNHEALTHY,
            "RecoveryNeeded",
            message=REQUESTED_BY_DRIVER[now.recovery],
            recovery=now.recovery,
        )


def _memory(now: probe.Measurements) -> Iterator[probe.DeviceHealth]:
    if now.remapped_rows and now.remapped_rows.failed:
        message = "a bad row of memory could not be remapped: no spare rows are left"
        yield probe.DeviceHealth(
            Health.UNHEALTHY, "RowRemapFailed", message=message, recovery=Recovery.REPLACE
        )
    if (now.remapped_rows and now.remapped_rows.pending) or now.retirement_pending:
        message = "rows of memory are remapped at the next reset; until then the card can be used"
        yield probe.DeviceHealth(reason="ResetPending", message=message, recovery=Recovery.RESET)


def _new_errors(now: probe.Measurements, before: probe.Measurements | None) -> Iterator[probe.DeviceHealth]:
    """Yield a problem for errors counted since the last sample; a smaller count has been reset.

    Cards that replace bad rows contain such errors, and report an XID where they could not.
    """
    if before is None or now.errors_uncorrected is None or before.errors_uncorrected is None:
        return
    if now.remapped_rows is not None:
        return
    if now.errors_uncorrected > before.errors_uncorrected:
        yield probe.DeviceHealth(
            Health.UNHEALTHY,
            "EccUncorrected",
            message="an error in memory could not be corrected",
            recovery=Recovery.RESET,
        )


def _heat(now: probe.Measurements) -> Iterator[probe.DeviceHealth]:
    if (
        now.temperature is not None
        and now.slowdown_temperature is not None
        and now.temperature >= now.slowdown_temperature
    ):
        message = f"the card is so hot ({now.slowdown_temperature} degrees or more) that it slows itself down"
        yield probe.DeviceHealth(Health.UNHEALTHY, "TooHot", message=message, recovery=Recovery.NONE)
