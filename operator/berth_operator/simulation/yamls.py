"""YAML as Kubernetes reads it, and fast enough for the dump of a large cluster.

PyYAML's loaders follow YAML 1.1 to the letter: they take the bus id 0000:10:00.0 for a
number in base 60 and an unquoted moment for a date, let the second of two equal keys win
without a word, and need half a minute for a thousand nodes. So only its parser (the one
in C where there is one) is used, and its events are put together here: keys are text,
numbers are decimal, and a key that is given twice is an error, as it is for kubectl.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from berth_operator.simulation.mistakes import Mistake, shown

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_VALUES: Final = 20_000_000  # A few lines of aliases can stand for more than any memory holds.
MOST_LEVELS: Final = 100
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
    """Yield each document and the line where it starts; raise a Mistake that names the line."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            act = HANDLERS.get(type(event))
            if act is not None:
                act(builder, event)
            elif type(event) is yaml.DocumentEndEvent:
                yield builder.finish()
    except yaml.MarkedYAMLError as error:
        last = text.rstrip().count("\n") + 1  # The end of the text counts as a line of its own.
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else last
        raise Mistake(f"line {line}: not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Mistake(f"line {line}: not YAML: {error.reason}: U+{error.character:04X}") from None


def plain(text: str) -> Any:
    """Read a scalar that stands without quotes."""
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
    """Read a number in base 2, 8 or 16; a bare leading zero means 8, as in file modes."""
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    return sign * (int(digits, 8) if digits.isdigit() else int(digits, 0))


class _Frame:
    """One mapping or list under construction."""

    __slots__ = ("anchor", "before", "key", "made", "merged")

    def __init__(self, made: dict[str, Any] | list[Any], anchor: str | None, before: int) -> None:
        self.made = made
        self.anchor = anchor
        self.before = before
        self.key: str | None = None
        self.merged: list[dict[str, Any]] = []


class _Builder:
    """Puts the events of one document after the other together."""

    def __init__(self) -> None:
        self._line = 1
        self._frames = [_Frame([], None, 0)]
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def start(self, event: Any) -> None:
        """Begin a document."""
        self.__init__()  # type: ignore[misc]  # A document shares nothing with the one before.
        self._line = event.start_mark.line + 1

    def finish(self) -> tuple[int, Any]:
        """End a document."""
        (root,) = self._frames
        return self._line, root.made[0] if root.made else None  # type: ignore[index]

    # ------------------------------------------------------------ events

    def scalar(self, event: Any) -> None:
        """Read a scalar: a key, or a value."""
        frame = self._frames[-1]
        if type(frame.made) is dict and frame.key is None:
            self._key(frame, event.value, event)
            return
        value = plain(event.value) if event.implicit[0] else _quoted(event)
        if event.anchor:
            self._anchors[event.anchor] = value, 1
        self._put(frame, value, event)

    def mapping(self, event: Any) -> None:
        """Begin a mapping."""
        self._open({}, event)

    def sequence(self, event: Any) -> None:
        """Begin a list."""
        self._open([], event)

    def end(self, event: Any) -> None:
        """End the mapping or list that was begun last."""
        done = self._frames.pop()
        for merged in done.merged:
            done.made = {**merged, **done.made}  # type: ignore[dict-item]
        if done.anchor:
            self._anchors[done.anchor] = done.made, self._count - done.before
        self._put(self._frames[-1], done.made, event)

    def alias(self, event: Any) -> None:
        """Repeat what stands at an anchor."""
        if event.anchor not in self._anchors:
            raise _mistake(event, f"the anchor {shown(event.anchor)} is not known (yet)")
        value, weight = self._anchors[event.anchor]
        self._count += weight
        self._put(self._frames[-1], value, event)

    # ------------------------------------------------------------ putting together

    def _open(self, made: dict[str, Any] | list[Any], event: Any) -> None:
        if event.tag is not None and not event.implicit:
            raise _mistake(event, f"the tag {shown(event.tag)} is not known")
        if len(self._frames) > MOST_LEVELS:
            raise _mistake(event, f"it is nested deeper than {MOST_LEVELS} levels")
        self._frames.append(_Frame(made, event.anchor, self._count))

    def _key(self, frame: _Frame, key: object, event: Any) -> None:
        if not isinstance(key, str):
            raise _mistake(event, "a key must be text")
        if key in frame.made:
            raise _mistake(event, f"the key {shown(key)} is given twice")
        frame.key = key

    def _put(self, frame: _Frame, value: Any, event: Any) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _mistake(event, f"it stands for more than {MOST_VALUES} values")
        made = frame.made
        if type(made) is list:
            made.append(value)
        elif frame.key is None:
            self._key(frame, value, event)
        elif frame.key == MERGE:
            frame.merged += _mappings(value, event)
            frame.key = None
        else:
            made[frame.key] = value  # type: ignore[call-overload]
            frame.key = None


def _mappings(value: Any, event: Any) -> list[dict[str, Any]]:
    """Read what `<<` names; of several, the first counts most."""
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in listed):
        raise _mistake(event, "<< must name a mapping")
    return listed


def _quoted(event: Any) -> Any:
    """Read a scalar in quotes, or one whose tag says what it is."""
    if event.tag is None or event.implicit[1]:
        return event.value
    kind = PLAIN_TAGS.get(event.tag)
    if kind is None:
        raise _mistake(event, f"the tag {shown(event.tag)} is not known")
    return event.value if kind == "str" else plain(event.value)


def _mistake(event: Any, what: str) -> Mistake:
    return Mistake(f"line {event.start_mark.line + 1}: not YAML: {what}")


HANDLERS: Final[dict[type, Callable[[_Builder, Any], None]]] = {
    yaml.ScalarEvent: _Builder.scalar,
    yaml.MappingStartEvent: _Builder.mapping,
    yaml.MappingEndEvent: _Builder.end,
    yaml.SequenceStartEvent: _Builder.sequence,
    yaml.SequenceEndEvent: _Builder.end,
    yaml.AliasEvent: _Builder.alias,
    yaml.DocumentStartEvent: _Builder.start,
}
