"""What is wrong with the input, told in one line that names the place.

A Mistake is about what a person wrote: its sentence says in which file, in which object
and at which field, in words of Kubernetes rather than of Python. Anything else that goes
wrong is a bug and shows itself as one.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth_crds import text

LONGEST: Final = 4000
LONGEST_SHOWN: Final = 63
WORDS: Final = {
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


class Mistake(Exception):
    """Something in the input that only its author can mend; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(text.line(message, most=LONGEST))


def shown(value: object) -> str:
    """Show what people wrote, in a few words."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    return text.line(text.quoted(value) if isinstance(value, str) else str(value).lower(), most=LONGEST_SHOWN)


def of_shape(error: msgspec.ValidationError, body: Mapping[str, Any]) -> str:
    """Return where an object has not the shape of its kind: `spec.devices[0].uuid is missing`."""
    match = _AT.fullmatch(str(error))
    what, path = (match["what"], match["path"] or "") if match else (str(error), "")
    missing, expected = _MISSING.fullmatch(what), _EXPECTED.fullmatch(what)
    if missing:
        return f"{_dotted(path, missing['field'])} is missing"
    wanted = expected["wanted"] if expected else ""
    where, found = _walk(body, path, wanted)
    if not expected:
        return f"{where}: {what}"
    quote = ", in quotes" if wanted == "str" and isinstance(found, int | float) else ""
    return f"{where or 'the object'}: expected {_words(wanted)}{quote}, found {shown(found)}"


def _words(wanted: str) -> str:
    kinds = [WORDS.get(one.strip(), one.strip()) for one in wanted.split("|")]
    return " or ".join(kind for kind in kinds if kind != WORDS["null"]) or WORDS["null"]


def _dotted(path: str, field: str) -> str:
    return f"{path}.{field}".removeprefix(".")


def _walk(body: Any, path: str, wanted: str) -> tuple[str, Any]:
    """Follow a path to what stands there; `[...]` is whichever entry has the wrong kind."""
    found, where = body, ""
    for step in _STEP.finditer(path):
        if step["any"]:
            key = _culprit(found, wanted)
            found, where = found.get(key), f"{where}.{key}"
        elif step["at"]:
            found, where = found[int(step["at"])], f"{where}[{step['at']}]"
        else:
            found, where = found.get(step["name"]), f"{where}.{step['name']}"
    return where.removeprefix("."), found


def _culprit(entries: Mapping[str, Any], wanted: str) -> str:
    kinds = {one.strip() for one in wanted.split("|")}
    return next((key for key, value in entries.items() if _PYTHON.get(type(value)) not in kinds), "")
