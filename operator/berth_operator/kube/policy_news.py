"""What the log tells of the policy in force: one line for each change of it, with what is other than before.

A rule is named as people write it in the policy: `weights.core`, `models.a100`. Rules that
nobody wrote have their defaults, and where there is no policy all of them have.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth_crds import logs, names, text, wire

log = logging.getLogger(__name__)

BUILT_IN: Final = wire.PolicySpec()
MOST_TOLD: Final = 16
LONGEST_VALUE: Final = 128

Rules = Mapping[str, object]
Change = tuple[str, object, object]  # A rule, what it was, and what it is; None where it is not there.


class PolicyNews:
    """Compares the policy in force with what it was before."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._logger = logger
        self._spec: wire.PolicySpec | None = None  # Nothing was read yet, or there is none.

    def in_force(self, spec: wire.PolicySpec) -> None:
        """Record a policy that is in force from now on, and write what it changes."""
        before, self._spec = self._spec, spec
        found = list(changes(BUILT_IN if before is None else before, spec))
        if before is None:
            self._write("policy %s is in force: %s", found, otherwise="all rules are as by default")
        elif found:
            self._write("policy %s: %s", found)

    def gone(self) -> None:
        """Record that there is no policy any more, and write what that changes."""
        before, self._spec = self._spec, None
        if before is not None:
            found = list(changes(before, BUILT_IN))
            self._write("policy %s is gone, defaults are in force: %s", found, otherwise="nothing changes")

    def _write(self, form: str, found: list[Change], *, otherwise: str = "") -> None:
        told = found[:MOST_TOLD]
        more = [f"{len(found) - len(told)} more"] if len(found) > len(told) else []
        words = "; ".join([*(_words(*one) for one in told), *more]) or otherwise
        changed = {rule: {"from": before, "to": now} for rule, before, now in told}
        fields = logs.fields(policy=names.DEFAULT_POLICY, changed=changed)
        self._logger.info(form, names.DEFAULT_POLICY, words, extra=fields)


def changes(before: wire.PolicySpec, now: wire.PolicySpec) -> Iterator[Change]:
    """Yield the rules that are other than before."""
    old, new = dict(_rules(before)), dict(_rules(now))
    for rule in dict.fromkeys((*old, *new)):
        if old.get(rule) != new.get(rule):
            yield rule, old.get(rule), new.get(rule)


def _rules(part: wire.Struct, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each rule with its value, by its name in the policy."""
    for field, name in zip(part.__struct_fields__, part.__struct_encode_fields__, strict=True):
        value = getattr(part, field)
        if isinstance(value, wire.Struct):
            yield from _rules(value, f"{at}{name}.")
        elif isinstance(value, Mapping):
            yield from ((f"{at}{name}.{key}", one) for key, one in value.items())
        else:
            yield f"{at}{name}", value


def _words(rule: str, before: object, now: object) -> str:
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
