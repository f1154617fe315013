"""Files, folders and standard input: where manifests and traces come from.

A file may hold YAML or JSON, several documents one after the other, whatever its name
ends in; a folder stands for all manifests in it and in its folders. Each document
remembers where it came from, for the sake of the sentence that may be needed.
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
from berth_operator.simulation.mistakes import Mistake

STDIN: Final = "-"
BLANK: Final = re.compile(r"[ \t\r\n]*")
ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: where it is, as people would say it, and what it holds."""

    file: str
    line: int
    value: Any

    @property
    def place(self) -> str:
        """Name the place."""
        return self.file if self.line <= 1 else f"{self.file}: line {self.line}"


def read(names: Sequence[str]) -> Iterator[Document]:
    """Read the documents of all files, in the order given."""
    for name in names:
        for file in expand(name):
            yield from of_text(text(file), "stdin" if file == STDIN else file)


def expand(name: str) -> list[str]:
    """Return the manifests of a folder and of its folders, by name; a file stands for itself."""
    if name == STDIN or not Path(name).is_dir():
        return [name]
    walk = os.walk(name, onerror=_unreadable)
    paths = (Path(folder, file) for folder, _, files in walk for file in files)
    found = sorted(path for path in paths if path.suffix in ENDINGS and path.is_file())
    if not found:
        raise Mistake(f"{name}: there are no manifests in this folder")
    return [str(path) for path in found]


def _unreadable(error: OSError) -> None:
    raise Mistake(f"{error.filename}: {error.strerror}")


def text(name: str) -> str:
    """Read a whole file, or all of standard input."""
    if name == STDIN and sys.stdin is None:
        raise Mistake("standard input is closed")
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Mistake(f"{name}: it is not UTF-8 text (byte {error.start})") from None
    except ValueError:
        raise Mistake(f"{name}: it cannot be the name of a file") from None
    except OSError as error:
        raise Mistake(f"{name}: {error.strerror or error}") from None


def of_text(text: str, file: str) -> Iterator[Document]:
    """Split a text into its documents, leaving out those that are empty."""
    try:
        for line, value in _parsed(text):
            if value is not None:
                yield Document(file, line, value)
    except Mistake as mistake:
        raise Mistake(f"{file}: {mistake}") from None


def _parsed(text: str) -> Iterator[tuple[int, Any]]:
    if text.lstrip()[:1] not in {"{", "["}:
        return yamls.documents(text)
    try:
        return iter([(1, msgspec.json.decode(text))])
    except (msgspec.DecodeError, RecursionError):
        return _not_one_json(text)


def _not_one_json(text: str) -> Iterator[tuple[int, Any]]:
    """Read several JSON documents, or the braces of YAML; where it is neither, JSON was meant."""
    try:
        yield from list(_concatenated(text))
    except json.JSONDecodeError as error:
        try:
            yield from list(yamls.documents(text))
        except Mistake:
            raise Mistake(f"line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        # Objects of a cluster may be as deep, in what placement never reads.
        yield from _not_one_json(nesting.cut_deep_values(text.encode()).decode())


def _concatenated(text: str) -> Iterator[tuple[int, Any]]:
    decoder, line, at = json.JSONDecoder(), 1, 0
    while (start := _past_blanks(text, at)) < len(text):
        line += text.count("\n", at, start)
        value, at = decoder.raw_decode(text, start)
        yield line, value
        line += text.count("\n", start, at)


def _past_blanks(text: str, at: int) -> int:
    match = BLANK.match(text, at)
    return match.end() if match else at
