"""Files, folders and standard input: where manifests and traces come from.

A file may hold YAML or JSON, several documents one after the other, whatever its name ends
in; a folder stands for all manifests in it and in its folders. Each document keeps the place
where it was read, because errors name it.
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from berth_crds import nesting
from berth_operator.simulation import yamls
from berth_operator.simulation.input_errors import InputError

STDIN: Final = "-"
NOT_BLANK: Final = re.compile(r"[^ \t\r\n]")
ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: its place and its value."""

    file: str
    line: int
    value: Any

    @property
    def place(self) -> str:
        """The place, as errors name it."""
        return self.file if self.line <= 1 else f"{self.file}: line {self.line}"


def read(names: Sequence[str]) -> Iterator[Document]:
    """Yield the documents of all files, in the order given."""
    for name in names:
        for file in expand(name):
            yield from of_text(text(file), "stdin" if file == STDIN else file)


def expand(name: str) -> list[str]:
    """Return the manifests of a folder and of its folders, by name; a file stands for itself."""
    if name == STDIN or not Path(name).is_dir():
        return [name]
    paths = (Path(folder, file) for folder, _, files in os.walk(name, onerror=_unreadable) for file in files)
    found = sorted(path for path in paths if path.suffix in ENDINGS and path.is_file())
    if not found:
        raise InputError(f"{name}: there are no manifests in this folder")
    return [str(path) for path in found]


def _unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}")


def text(name: str) -> str:
    """Return a whole file, or all of standard input."""
    if name == STDIN and sys.stdin is None:
        raise InputError("standard input is closed")
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: it is not UTF-8 text (byte {error.start})") from None
    except ValueError:
        raise InputError(f"{name}: it cannot be the name of a file") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None


def of_text(text: str, file: str) -> Iterator[Document]:
    """Yield the documents of a text without the empty ones."""
    try:
        for line, value in _parsed(text):
            if value is not None:
                yield Document(file, line, value)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _parsed(text: str) -> Iterator[tuple[int, Any]]:
    if text.lstrip()[:1] not in {"{", "["}:
        return yamls.documents(text)
    try:
        return iter([(1, msgspec.json.decode(text))])
    except (msgspec.DecodeError, RecursionError):
        return _not_one_json(text)


def _not_one_json(text: str) -> Iterator[tuple[int, Any]]:
    """Yield several JSON documents, or YAML in braces; text that is neither is reported as invalid JSON."""
    try:
        yield from list(_concatenated(text))
    except json.JSONDecodeError as error:
        try:
            yield from list(yamls.documents(text))
        except InputError:
            raise InputError(f"line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        # Objects of a cluster may be so deep, in fields that placement never reads.
        yield from _not_one_json(nesting.cut_deep_values(text.encode()).decode())


def _concatenated(text: str) -> Iterator[tuple[int, Any]]:
    decoder, line, at = json.JSONDecoder(), 1, 0
    while found := NOT_BLANK.search(text, at):
        line += text.count("\n", at, found.start())
        value, at = decoder.raw_decode(text, found.start())
        yield line, value
        line += text.count("\n", found.start(), at)
