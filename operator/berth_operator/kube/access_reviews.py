"""Whose token it is and what they may read: asked of the API server, which alone knows.

First a TokenReview, then a SubjectAccessReview for whoever it named; both are answered
without anything being stored.
"""

from typing import Any, TypeVar

from berth_crds import wire
from berth_crds.client import api, resources

T = TypeVar("T")


class User(wire.Struct, frozen=True):
    """Who a token belongs to, as a right is asked for."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(wire.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(wire.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(wire.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(wire.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Reviews:
    """Asks the API server about those who ask us."""

    def __init__(self, session: api.Api) -> None:
        self._session = session

    async def judge(self, token: str, path: str) -> tuple[str, bool] | None:
        """Return whose token it is and whether they may get the path; None where it is nobody's."""
        user = await self._whose(token)
        if user is None:
            return None
        return user.username, await self._may(user, path)

    async def _whose(self, token: str) -> User | None:
        found = await self._ask(resources.TOKEN_REVIEWS, {"token": token}, _TokenReview)
        return found.status.user if found.status.authenticated and found.status.user.username else None

    async def _may(self, user: User, path: str) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or (),
            "extra": user.extra or {},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        found = await self._ask(resources.ACCESS_REVIEWS, spec, _AccessReview)
        return found.status.allowed and not found.status.denied

    async def _ask(self, kind: resources.Resource, spec: dict[str, Any], into: type[T]) -> T:
        body = await self._session.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        )
        return api.decode(body, into, path=kind.path())
