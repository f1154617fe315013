"""Requests to the API server in the words of its access control: verb, resource, subresource.

Tests speak of "the first bind" or "every watch"; here a request's method and path become
such a word, so that an interceptor can be told what to do with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `resource` carries no group, since no two of ours share a plural.

    `asked` is how its body begins, where that matters.
    """

    verb: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    asked: bytes = b""

    @property
    def kind(self) -> str:
        """Name the kind of call, as in `create pods/binding`."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{sub}"

    @property
    def streams(self) -> bool:
        """Whether the answer goes on for long."""
        return self.verb == "watch"


def of(method: str, path: str, query: Mapping[str, str]) -> Call:
    """Read a request line."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    # The path of a namespace itself ends after its name; what lies in one goes on.
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, sub = [*rest, "", "", ""][:3]
    if not resource:
        return Call("discover", "kinds")
    return Call(_verb(method, name, query), resource, sub, namespace, name)


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method in VERBS:
        return VERBS[method]
    if query.get("watch") in {"true", "1"}:
        return "watch"
    return "get" if name else "list"
