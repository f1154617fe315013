"""Selectors of devices by their labels, in the text of Kubernetes' label selectors.

`fabric=a,rail in (1,2),!slow` is a selector of all devices that are no cards. Several selectors, each
for devices of one type, are separated by semicolons: `rdma: fabric=a; gpu: tier=gold`. Of virtual functions
`rdma: *` selects any: a device that has none does not do. A selector that another project writes as an object
of Kubernetes becomes such a text first.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from berth_crds import device_types, vocabulary
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, refusals

KEY: Final = r"(?P<key>[A-Za-z0-9_./-]+)"
VALUE: Final = r"[A-Za-z0-9_.-]*"
EQUAL: Final = re.compile(rf"{KEY}\s*(?P<sign>==?|!=)\s*(?P<value>{VALUE})", re.ASCII)
AMONG: Final = re.compile(rf"{KEY}\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)", re.ASCII)
PRESENT: Final = re.compile(rf"(?P<absent>!?)\s*{KEY}", re.ASCII)
COMPARED: Final = re.compile(rf"{KEY}\s*[<>]\s*[0-9]+", re.ASCII)
VALUES: Final = re.compile(VALUE, re.ASCII)
WORDS: Final = {"In": "in", "NotIn": "notin"}
EXAMPLE: Final = "write for instance fabric=a"
ANY_FUNCTION: Final = "*"


def parse(place: str, text: str) -> tuple[requests.LabelSelector, ...]:
    """Return the selectors of a text, one for each type; refuse what is no selector or selects nothing."""
    return _selectors(place, _parts_of_types(place, text))


def parse_functions(place: str, text: str) -> tuple[requests.LabelSelector, ...]:
    """Return the selectors of virtual functions; the one of any function has no expression."""
    parts = _parts_of_types(place, text)
    return _selectors(
        place, {kind: [part for part in listed if part != ANY_FUNCTION] for kind, listed in parts.items()}
    )


def _parts_of_types(place: str, text: str) -> dict[str, list[str]]:
    """Return the parts of a text by the type that they are about; there is one of each type at least."""
    parts: dict[str, list[str]] = {}
    sections = [section for section in text.split(";") if section.strip()]
    for section in pod_limits.check_count(place, "selectors", sections, pod_limits.MAX_LABELS):
        named, colon, selected = section.partition(":")
        kind = _type(place, named.strip()) if colon else ""
        parts.setdefault(kind, []).extend(_parts(selected if colon else section))
    if not parts or not all(parts.values()):
        refusals.refuse(f"{place} names no label; {EXAMPLE}")
    return parts


def _selectors(place: str, parts: Mapping[str, list[str]]) -> tuple[requests.LabelSelector, ...]:
    labels = [part for listed in parts.values() for part in listed]
    pod_limits.check_count(place, "labels", labels, pod_limits.MAX_LABELS)
    selectors = tuple(
        requests.LabelSelector(kind, tuple(sorted({_expression_of(place, part) for part in parts[kind]})))
        for kind in sorted(parts)
    )
    for selector in selectors:
        _refuse_two_values(place, selector)
    return selectors


def _parts(selector: str) -> Iterator[str]:
    """Yield what stands between commas; a comma within parentheses separates values."""
    pending: list[str] = []
    inside = False
    for piece in selector.split(","):
        pending.append(piece)
        inside = piece.rfind("(") > piece.rfind(")") or (inside and ")" not in piece)
        if not inside and (part := ",".join(pending).strip()):
            yield part
        if not inside:
            pending.clear()
    if pending:
        yield ",".join(pending).strip()


def _type(place: str, text: str) -> str:
    kind, known = text.lower(), (vocabulary.DeviceType.GPU.value, *device_types.BY_NAME)
    if kind and kind not in known:
        refusals.refuse(
            f"{place}: {refusals.shown(text)} is no type of device; write one of {', '.join(known)}"
        )
    return kind


def _expression_of(place: str, part: str) -> facts.LabelExpression:
    checked = pod_limits.check_length(f"{place}: a label", part, pod_limits.MAX_LABEL_TEXT)
    return _expression(checked) or _refuse_text(place, part)


def _expression(part: str) -> facts.LabelExpression | None:
    if match := EQUAL.fullmatch(part):
        return facts.LabelExpression(
            match["key"], "NotIn" if match["sign"] == "!=" else "In", (match["value"],)
        )
    if match := AMONG.fullmatch(part):
        values = tuple(sorted({value.strip() for value in match["values"].split(",")}))
        operator = "In" if match["word"] == "in" else "NotIn"
        readable = all(map(VALUES.fullmatch, values))
        return facts.LabelExpression(match["key"], operator, values) if readable else None
    if match := PRESENT.fullmatch(part):
        return facts.LabelExpression(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    return None


def is_selector(text: str) -> bool:
    """Whether a text is one that the API server takes as a selector of its objects by their labels."""
    parts = list(_parts(text))
    return bool(parts) and all(_expression(part) or COMPARED.fullmatch(part) for part in parts)


def _refuse_text(place: str, part: str) -> NoReturn:
    refusals.refuse(f"{place}: '{refusals.shown(part.strip())}' is no label; {EXAMPLE}")


def _refuse_two_values(place: str, selector: requests.LabelSelector) -> None:
    """Refuse a label that shall have two values at once."""
    values: dict[str, set[str]] = {}
    for one in selector.expressions:
        if one.operator == "In":
            allowed = values.setdefault(one.key, set(one.values))
            allowed &= set(one.values)
            if not allowed:
                key = refusals.shown(one.key)
                refusals.refuse(f"{place} gives the label {key} two values; no device has both")


# ---------------------------------------------------------------- selectors as objects


def text_of(where: str, selector: Mapping[str, Any]) -> str:
    """Return the text of a LabelSelector; an empty one, which selects everything, has none."""
    unknown = sorted(set(selector) - {"matchLabels", "matchExpressions"})
    if unknown:
        refusals.decline(f"{where}: {refusals.shown(unknown[0])} is not served")
    labels = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping):
        refusals.refuse(f"{where}.matchLabels is no object")
    if not isinstance(expressions, list):
        refusals.refuse(f"{where}.matchExpressions is no list")
    parts = [_equal(where, key, value) for key, value in sorted(labels.items())]
    return ",".join((*parts, *(_written(where, one) for one in expressions)))


def _equal(where: str, key: str, value: object) -> str:
    text = f"{key}={value}"
    if not isinstance(value, str) or not EQUAL.fullmatch(text):
        refusals.refuse(f"{where}.matchLabels holds what is no label")
    return text


def _written(where: str, expression: object) -> str:
    """Return the text of one of the matchExpressions."""
    fields = expression if isinstance(expression, Mapping) else {}
    key, operator, values = (fields.get(name) for name in ("key", "operator", "values"))
    listed = values if isinstance(values, list) else []
    text = {
        "In": f"{key} in ({','.join(map(str, listed))})" if listed else "",
        "NotIn": f"{key} notin ({','.join(map(str, listed))})" if listed else "",
        "Exists": "" if listed else f"{key}",
        "DoesNotExist": "" if listed else f"!{key}",
    }.get(str(operator), "")
    if not isinstance(key, str) or _expression(text) is None:
        refusals.refuse(
            f"{where}.matchExpressions holds '{refusals.shown(str(expression))}', which is no expression; "
            f"write key, operator ({', '.join((*WORDS, 'Exists', 'DoesNotExist'))}) and values"
        )
    return text
