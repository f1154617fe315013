"""Reads the API server's audit log: who wrote what, when, and how the server answered.

The log is what no client can fool, so it is how tests count the writes for each pod and
how benchmarks take their times. The policy below drops reads (they would be most of the log) and keeps one
line for each finished write. The server writes that line just after it has answered: a test that looks for
it must wait for it.
"""

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
omitManagedFields: true
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["/*"]
- level: Metadata
"""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One finished write."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    received: dt.datetime
    time: dt.datetime


class Log:
    """The log of one server: each look parses only what was written since the last."""

    def __init__(self, path: Path, *, start: int = 0) -> None:
        """Begin at a byte."""
        self._path = path
        self._parsed = start
        self._events: list[AuditEvent] = []

    def events(self) -> list[AuditEvent]:
        """Return all finished writes; a last line that is still being written is left for the next look."""
        if self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._parsed)
                *lines, _unfinished = log.read().split(b"\n")
            self._parsed += sum(len(line) + 1 for line in lines)
            self._events += [_event(json.loads(line)) for line in lines if line]
        return list(self._events)


def read(path: Path, *, start: int = 0) -> list[AuditEvent]:
    """Return what a log says from a byte on."""
    return Log(path, start=start).events()


def writes_by(events: Iterable[AuditEvent], user: str) -> list[AuditEvent]:
    """Keep the writes of one user, refused ones included."""
    return [event for event in events if event.user == user]


def writes_to(
    events: Iterable[AuditEvent],
    resource: str,
    *,
    subresource: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
) -> list[AuditEvent]:
    """Keep the writes to one kind of object; `None` means any, an empty subresource the object itself."""
    wanted = {"resource": resource, "subresource": subresource, "namespace": namespace, "name": name}
    given = {field: value for field, value in wanted.items() if value is not None}
    return [
        event for event in events if all(getattr(event, field) == value for field, value in given.items())
    ]


def accepted(events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """Keep the writes that the server carried out."""
    return [event for event in events if event.code < 300]


def unsure(events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """Keep the writes whose client went away meanwhile: they may have been carried out or not."""
    return [event for event in events if event.code == 504]


def refused(events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """Keep the writes that the server turned down."""
    return [event for event in events if event.code >= 300]


def _event(line: dict[str, Any]) -> AuditEvent:
    target = line.get("objectRef", {})
    return AuditEvent(
        user=line["user"]["username"],
        verb=line["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=line.get("responseStatus", {}).get("code", 0),
        received=dt.datetime.fromisoformat(line["requestReceivedTimestamp"]),
        time=dt.datetime.fromisoformat(line["stageTimestamp"]),
    )
