"""YAML as Kubernetes reads it, and fast enough for the dump of a large cluster.

PyYAML's loaders follow YAML 1.1 to the letter: they read the bus id 0000:10:00.0 as a number in
base 60 and an unquoted time as a date, silently use the second of two equal keys, and need half a
minute for a thousand nodes. So only its parser is used (the one in C where available), and values
are built from its events here: keys are text, numbers are decimal, and a key that is given twice
is an error, as it is for kubectl.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from berth_operator.simulation.input_errors import InputError, shown

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_VALUES: Final = 20_000_000  # A few lines of aliases can stand for more than any memory holds.
MAX_LEVELS: Final = 100
MERGE: Final = "<<"
WORDS: Final[dict[str, bool | None]] = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **{spelled: True for word in ("true", "yes", "on") for spelled in (word, word.title(), word.upper())},
    **{spelled: False for word in ("false", "no", "off") for spelled in (word, word.title(), word.upper())},
}
INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
BASED: Final = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+)")
FLOAT: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
STARTS_NUMBER: Final = frozenset("+-.0123456789")
PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null")}


def documents(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each document and the line where it starts; raise an InputError that names the line."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if (act := HANDLERS.get(type(event))) is not None:
                act(builder, event)
            elif type(event) is yaml.DocumentStartEvent:
                builder = _Builder(event)
            elif type(event) is yaml.DocumentEndEvent:
                yield builder.finish()
    except yaml.MarkedYAMLError as error:
        last = text.rstrip().count("\n") + 1  # The end of the text is a line of its own.
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else last
        raise InputError(f"line {line}: not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"line {line}: not YAML: {error.reason}: U+{error.character:04X}") from None


def plain(text: str) -> Any:
    """Return the value of a scalar without quotes."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in STARTS_NUMBER:
        return text
    if INT.fullmatch(text):
        return int(text)
    if BASED.fullmatch(text):
        return _based(text)
    return float(text) if FLOAT.fullmatch(text) else text


def _based(text: str) -> int:
    """Return a number in base 2, 8 or 16; a bare leading zero means 8, as in file modes."""
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    return sign * (int(digits, 8) if digits.isdigit() else int(digits, 0))


@dataclasses.dataclass(slots=True)
class _Frame:
    """One mapping or list under construction."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    count_before: int
    key: str | None = None
    merged: list[dict[str, Any]] = dataclasses.field(default_factory=list)


class _Builder:
    """Builds the value of one document from events, the first of which starts it."""

    def __init__(self, start: Any = None) -> None:
        self._line = start.start_mark.line + 1 if start is not None else 1
        self._frames = [_Frame([], None, 0)]
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def finish(self) -> tuple[int, Any]:
        """Return the line and the value of a document that ended."""
        (root,) = self._frames
        return self._line, root.value[0] if root.value else None  # type: ignore[index]

    # ------------------------------------------------------------ events

    def scalar(self, event: Any) -> None:
        """Read a scalar: a key, or a value."""
        frame = self._frames[-1]
        if type(frame.value) is dict and frame.key is None:
            self._key(frame, event.value, event)
            return
        value = plain(event.value) if event.implicit[0] else _quoted(event)
        if event.anchor:
            self._anchors[event.anchor] = value, 1
        self._put(frame, value, event)

    def open(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        """Begin a mapping or a list."""
        if event.tag is not None and not event.implicit:
            raise _error(event, f"the tag {shown(event.tag)} is not known")
        if len(self._frames) > MAX_LEVELS:
            raise _error(event, f"it is nested deeper than {MAX_LEVELS} levels")
        self._frames.append(_Frame(value, event.anchor, self._count))

    def end(self, event: Any) -> None:
        """End the mapping or list that was begun last."""
        frame = self._frames.pop()
        for merged in frame.merged:
            frame.value = {**merged, **frame.value}  # type: ignore[dict-item]
        if frame.anchor:
            self._anchors[frame.anchor] = frame.value, self._count - frame.count_before
        self._put(self._frames[-1], frame.value, event)

    def alias(self, event: Any) -> None:
        """Repeat what stands at an anchor."""
        if event.anchor not in self._anchors:
            raise _error(event, f"the anchor {shown(event.anchor)} is not known (yet)")
        value, weight = self._anchors[event.anchor]
        self._count += weight
        self._put(self._frames[-1], value, event)

    # ------------------------------------------------------------ values

    def _key(self, frame: _Frame, key: object, event: Any) -> None:
        if not isinstance(key, str):
            raise _error(event, "a key must be text")
        if key in frame.value:
            raise _error(event, f"the key {shown(key)} is given twice")
        frame.key = key

    def _put(self, frame: _Frame, value: Any, event: Any) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _error(event, f"it stands for more than {MAX_VALUES} values")
        parent = frame.value
        if type(parent) is list:
            parent.append(value)
        elif frame.key is None:
            self._key(frame, value, event)
        elif frame.key == MERGE:
            frame.merged += _mappings(value, event)
            frame.key = None
        else:
            parent[frame.key] = value  # type: ignore[call-overload]
            frame.key = None


def _mappings(value: Any, event: Any) -> list[dict[str, Any]]:
    """Return the mappings that `<<` names; the first has precedence."""
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in listed):
        raise _error(event, "<< must name a mapping")
    return listed


def _quoted(event: Any) -> Any:
    """Return the value of a scalar in quotes, or of one with a tag."""
    if event.tag is None or event.implicit[1]:
        return event.value
    if (kind := PLAIN_TAGS.get(event.tag)) is None:
        raise _error(event, f"the tag {shown(event.tag)} is not known")
    return event.value if kind == "str" else plain(event.value)


def _error(event: Any, what: str) -> InputError:
    return InputError(f"line {event.start_mark.line + 1}: not YAML: {what}")


HANDLERS: Final[dict[type, Callable[[_Builder, Any], None]]] = {
    yaml.ScalarEvent: _Builder.scalar,
    yaml.MappingStartEvent: lambda builder, event: builder.open({}, event),
    yaml.MappingEndEvent: _Builder.end,
    yaml.SequenceStartEvent: lambda builder, event: builder.open([], event),
    yaml.SequenceEndEvent: _Builder.end,
    yaml.AliasEvent: _Builder.alias,
}
