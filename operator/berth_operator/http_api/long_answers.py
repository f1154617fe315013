"""Writes long answers piece by piece, so that pods are bound meanwhile.

A large cluster is many megabytes. To write them all at once takes seconds, and neither
another task nor another thread has its turn in the midst of it: the libraries that write
JSON and YAML hold the interpreter until they are done. So a few objects at a time are
written, in a thread, and for a client that is gone no more of them. An answer is kept
until it is whole: half a cluster must not be taken for one.
"""

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
import yaml
from aiohttp import web

FORMATS: Final = {"json": "application/json", "yaml": "application/yaml", "text": "text/plain"}
AT_ONCE: Final = 32  # So many objects are read or written before others have their turn.

T = TypeVar("T")


async def some_at_a_time(things: Iterable[T]) -> AsyncIterator[list[T]]:
    """Go through things that take time to make, some at a time: others have a turn in between."""
    left = iter(things)
    while some := list(itertools.islice(left, AT_ONCE)):
        yield some


async def pieces(found: AsyncIterable[list[Any]], form: str) -> list[bytes]:
    """Write objects as items of a list, some in each piece."""
    written: list[bytes] = []
    async for some in found:
        parts = (some[at : at + AT_ONCE] for at in range(0, len(some), AT_ONCE))
        written += [await asyncio.to_thread(_piece, part, form) for part in parts]
    return written


def _piece(some: list[Any], form: str) -> bytes:
    # One by one, for other threads have their turn between two objects only.
    if form == "yaml":
        return b"".join(_yaml([one]) for one in some)
    return b",\n".join(_json(one) for one in some)


def listed(written: list[bytes], form: str) -> Iterator[bytes]:
    """Make a list of pieces."""
    if not written:
        yield b"[]\n"
    elif form == "yaml":
        yield from written
    else:
        yield b"[\n"
        for at, one in enumerate(written):
            yield b",\n" if at else b""  # By itself: no piece is copied.
            yield one
        yield b"\n]\n"


def kubernetes_list(written: list[bytes], form: str) -> Iterator[bytes]:
    """Make an object of kind List, whose items are in these pieces."""
    items = listed(written, form)
    if form == "yaml":
        yield b"apiVersion: v1\nkind: List\nitems:" + (b"\n" if written else b" ")
        yield from items
    else:
        yield b'{"apiVersion": "v1", "kind": "List", "items": '
        yield from items
        yield b"}\n"


def encoded(value: Any, form: str) -> bytes:
    """Write a value as a whole."""
    return _yaml(value) if form == "yaml" else _json(value) + b"\n"


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _yaml(value: Any) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # The one in C, where PyYAML was built with it.
    return yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True).encode()


async def send(request: web.Request, body: Iterable[bytes], form: str) -> web.StreamResponse:
    """Send an answer, no faster than it is read."""
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
