"""Encodes long answers in pieces, so that pods are bound meanwhile.

A large cluster is many megabytes. To encode it at once takes seconds, during which no other task
or thread runs: the libraries for JSON and YAML hold the interpreter until they are done. So a few
objects at a time are encoded, in a thread, and no more of them once the client is gone. An answer
is sent only when it is complete: half a cluster must not be taken for a whole one.
"""

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
import yaml
from aiohttp import web

FORMATS: Final = {"json": "application/json", "yaml": "application/yaml", "text": "text/plain"}
AT_ONCE: Final = 32  # Objects that are read or encoded between two awaits.

T = TypeVar("T")


async def in_portions(items: Iterable[T]) -> AsyncIterator[list[T]]:
    """Yield items that take time to make in portions, so that other tasks run in between."""
    left = iter(items)
    while some := list(itertools.islice(left, AT_ONCE)):
        yield some


async def pieces(found: AsyncIterable[list[Any]], form: str) -> list[bytes]:
    """Return objects encoded as items of a list, some in each piece."""
    written: list[bytes] = []
    async for some in found:
        written += [
            await asyncio.to_thread(_piece, part, form)
            for part in (some[start : start + AT_ONCE] for start in range(0, len(some), AT_ONCE))
        ]
    return written


def _piece(some: list[Any], form: str) -> bytes:
    # One by one, for other threads run between two objects only.
    if form == "yaml":
        return b"".join(_yaml([one]) for one in some)
    return b",\n".join(_json(one) for one in some)


def listed(written: list[bytes], form: str) -> Iterator[bytes]:
    """Yield the list that these pieces make."""
    if not written:
        yield b"[]\n"
    elif form == "yaml":
        yield from written
    else:
        yield b"[\n"
        for index, one in enumerate(written):
            yield b",\n" if index else b""  # Separately: no piece is copied.
            yield one
        yield b"\n]\n"


def kubernetes_list(written: list[bytes], form: str) -> Iterator[bytes]:
    """Yield an object of kind List with the items in these pieces."""
    items = listed(written, form)
    if form == "yaml":
        yield b"apiVersion: v1\nkind: List\nitems:" + (b"\n" if written else b" ")
        yield from items
    else:
        yield b'{"apiVersion": "v1", "kind": "List", "items": '
        yield from items
        yield b"}\n"


def encoded(value: Any, form: str) -> bytes:
    """Return a value encoded at once."""
    return _yaml(value) if form == "yaml" else _json(value) + b"\n"


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _yaml(value: Any) -> bytes:
    # The one in C, where PyYAML was built with it.
    return yaml.dump(
        value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True
    ).encode()


async def send(request: web.Request, body: Iterable[bytes], form: str) -> web.StreamResponse:
    """Send an answer, no faster than the client reads it."""
    chunks = list(body)
    answer = web.StreamResponse()
    answer.content_type, answer.charset = FORMATS[form], "utf-8"
    answer.content_length = sum(map(len, chunks))
    await answer.prepare(request)
    for one in chunks:
        if one:
            await answer.write(one)
            await asyncio.sleep(0)
    await answer.write_eof()
    return answer
