"""The sink of the policies' informer: the rules in force go to the ledger, and their changes to the log.

Each change is one line, with the rules that differ. A rule is named by its path in the policy:
`weights.core`, `models.a100`. Rules that are not set have their defaults; without a policy all rules
have.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth_crds import logs, names, text, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.translate import policies

log = logging.getLogger(__name__)

BUILT_IN: Final = wire.PolicySpec()
MOST_LOGGED: Final = 16
LONGEST_VALUE: Final = 128

Rules = Mapping[str, object]
Change = tuple[str, object, object]  # A rule, its old and its new value; None where it is not set.


class PolicySink:
    """Policies: the default one is in force; while it is invalid, its last valid state stays."""

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._logger = logger
        self._spec: wire.PolicySpec | None = None  # None before the first one, and while there is none.

    def upserted(self, thing: wire.PlacementPolicy) -> None:
        """Apply a policy's new state, and log what it changes."""
        if thing.metadata.name != names.DEFAULT_POLICY:
            return
        policy = policies.read(thing)
        if isinstance(policy, str):
            self._logger.warning(
                "the default policy is not accepted: %s; the last valid one stays in force", policy
            )
            return
        before, self._spec = self._spec, thing.spec
        found = list(changes(BUILT_IN if before is None else before, thing.spec))
        if before is None:
            self._log_change("policy %s is in force: %s", found, otherwise="all fields have their defaults")
        elif found:
            self._log_change("policy %s: %s", found)
        self._ledger.policy_seen(policy)

    def deleted(self, meta: wire.Meta) -> None:
        """Fall back to the built-in rules when the default policy is gone, and log what that changes."""
        if meta.name != names.DEFAULT_POLICY:
            return
        before, self._spec = self._spec, None
        if before is not None:
            self._log_change(
                "policy %s is gone, defaults are in force: %s",
                list(changes(before, BUILT_IN)),
                otherwise="nothing changes",
            )
        self._ledger.policy_seen(policies.DEFAULT)

    def _log_change(self, template: str, found: list[Change], *, otherwise: str = "") -> None:
        logged = found[:MOST_LOGGED]
        more = [f"{len(found) - len(logged)} more"] if len(found) > len(logged) else []
        changes_text = "; ".join([*(_change_text(*one) for one in logged), *more]) or otherwise
        self._logger.info(
            template,
            names.DEFAULT_POLICY,
            changes_text,
            extra=logs.fields(
                policy=names.DEFAULT_POLICY,
                changed={rule: {"from": before, "to": now} for rule, before, now in logged},
            ),
        )


def changes(before: wire.PolicySpec, now: wire.PolicySpec) -> Iterator[Change]:
    """Yield the rules that differ."""
    old, new = dict(_rules(before)), dict(_rules(now))
    for rule in dict.fromkeys((*old, *new)):
        if old.get(rule) != new.get(rule):
            yield rule, old.get(rule), new.get(rule)


def _rules(part: wire.Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each rule with its value, by its path in the policy."""
    for field, name in zip(part.__struct_fields__, part.__struct_encode_fields__, strict=True):
        value = getattr(part, field)
        if isinstance(value, wire.Struct):
            yield from _rules(value, f"{prefix}{name}.")
        elif isinstance(value, Mapping):
            yield from ((f"{prefix}{name}.{key}", one) for key, one in value.items())
        else:
            yield f"{prefix}{name}", value


def _change_text(rule: str, before: object, now: object) -> str:
    return f"{text.line(rule, most=LONGEST_VALUE)} is {_value(now)} (was {_value(before)})"


def _value(value: object) -> str:
    match value:
        case None | ():
            return "not set"
        case bool():
            return str(value).lower()
        case tuple():
            return text.line(", ".join(map(str, value)), most=LONGEST_VALUE)
        case _:
            return text.line(str(value), most=LONGEST_VALUE)
