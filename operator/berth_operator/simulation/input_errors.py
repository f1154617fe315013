"""Errors of the input, in one line that names the place.

An InputError is about what a person wrote: its sentence names the file, the object and the field,
in terms of Kubernetes rather than of Python. Any other exception is a bug and looks like one.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth_crds import text

MAX_LENGTH: Final = 4000
MAX_SHOWN: Final = 63
TYPE_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "nothing",
}
_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<at>\d+)\]|(?P<any>\[\.\.\.\])")
_PYTHON: Final = {str: "str", bool: "bool", int: "int", float: "float", dict: "object", list: "array"}


class InputError(Exception):
    """An error in the input that its author must correct; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(text.line(message, most=MAX_LENGTH))


def shown(value: object) -> str:
    """Return what people wrote, in a few words."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    return text.line(text.quoted(value) if isinstance(value, str) else str(value).lower(), most=MAX_SHOWN)


def of_shape(error: msgspec.ValidationError, body: Mapping[str, Any]) -> str:
    """Return where an object does not match its kind: `spec.devices[0].uuid is missing`."""
    match = _AT.fullmatch(str(error))
    what, path = (match["what"], match["path"] or "") if match else (str(error), "")
    missing, expected = _MISSING.fullmatch(what), _EXPECTED.fullmatch(what)
    if missing:
        return f"{path}.{missing['field']} is missing".removeprefix(".")
    wanted = expected["wanted"] if expected else ""
    where, found = _walk(body, path, wanted)
    if not expected:
        return f"{where}: {what}"
    quote = ", in quotes" if wanted == "str" and isinstance(found, int | float) else ""
    return f"{where or 'the object'}: expected {_words(wanted)}{quote}, found {shown(found)}"


def _words(wanted: str) -> str:
    kinds = [TYPE_WORDS.get(one.strip(), one.strip()) for one in wanted.split("|")]
    return " or ".join(kind for kind in kinds if kind != TYPE_WORDS["null"]) or TYPE_WORDS["null"]


def _walk(body: Any, path: str, wanted: str) -> tuple[str, Any]:
    """Return the place and the value at a path; `[...]` is the entry with the wrong type."""
    found, where = body, ""
    for step in _STEP.finditer(path):
        if step["any"]:
            key = _wrong_entry(found, wanted)
            found, where = found.get(key), f"{where}.{key}"
        elif step["at"]:
            found, where = found[int(step["at"])], f"{where}[{step['at']}]"
        else:
            found, where = found.get(step["name"]), f"{where}.{step['name']}"
    return where.removeprefix("."), found


def _wrong_entry(entries: Mapping[str, Any], wanted: str) -> str:
    kinds = {one.strip() for one in wanted.split("|")}
    return next((key for key, value in entries.items() if _PYTHON.get(type(value)) not in kinds), "")
