"""Asks the API server whose a token is, and what that user may read.

First a TokenReview, then a SubjectAccessReview of the user that it named. The API server stores
neither.
"""

from typing import Any, TypeVar

from berth_crds import wire
from berth_crds.client import api, resources

T = TypeVar("T")


class User(wire.Struct, frozen=True):
    """The user of a token, as a SubjectAccessReview names it."""

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


async def review(session: api.Api, token: str, path: str) -> tuple[str, bool] | None:
    """Return the token's user and whether they may get the path; None for an unknown token."""
    token_review = await _create(session, resources.TOKEN_REVIEWS, {"token": token}, _TokenReview)
    user = token_review.status.user
    if not (token_review.status.authenticated and user.username):
        return None
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups or (),
        "extra": user.extra or {},
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    access = await _create(session, resources.ACCESS_REVIEWS, spec, _AccessReview)
    return user.username, access.status.allowed and not access.status.denied


async def _create(session: api.Api, kind: resources.Resource, spec: dict[str, Any], into: type[T]) -> T:
    body = await session.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec})
    return api.decode(body, into, path=kind.path())
