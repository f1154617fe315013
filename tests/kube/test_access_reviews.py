"""Reviews: whose token it is and what they may read, as the API server says."""

from typing import Any

import msgspec
import pytest

from berth_crds.client import api, errors
from berth_operator.kube import access_reviews
from support import stub
from testbed import cluster as clusters
from testbed import waiting

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KNOWN = {"status": {"authenticated": True, "user": {"username": "ann", "groups": ["dev"], "uid": "7"}}}


async def review(
    server: stub.Stub, session: api.Api, *, token: Any, access: Any = None
) -> tuple[str, bool] | None:
    """Have a token reviewed by a server with these answers."""
    server.on("POST", TOKENS, stub.thing(token, code=201))
    server.on("POST", ACCESS, stub.thing(access or {}, code=201))
    return await access_reviews.review(session, "secret", "/debug/ledger")


async def test_the_right_is_asked_for_whom_the_token_names(server: stub.Stub, stub_session: api.Api) -> None:
    """The second question names the user, the groups, the path and the verb of the first."""
    answer = await review(server, stub_session, token=KNOWN, access={"status": {"allowed": True}})

    asked = [msgspec.json.decode(body)["spec"] for body in server.bodies]
    assert answer == ("ann", True)
    assert asked == [
        {"token": "secret"},
        {
            "user": "ann",
            "uid": "7",
            "groups": ["dev"],
            "extra": {},
            "nonResourceAttributes": {"path": "/debug/ledger", "verb": "get"},
        },
    ]


NOBODY = {
    "not known": {"status": {"authenticated": False, "error": "expired"}},
    "without a name": {"status": {"authenticated": True}},
    "an empty answer": {},
}


@pytest.mark.parametrize("token", NOBODY.values(), ids=NOBODY.keys())
async def test_a_token_that_names_nobody_is_nobodys(
    server: stub.Stub, stub_session: api.Api, token: Any
) -> None:
    """Nothing is asked about a user whom the server did not name."""
    assert await review(server, stub_session, token=token) is None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "status",
    [{"allowed": False}, {"allowed": True, "denied": True}, {}],
    ids=["not allowed", "denied", "nothing said"],
)
async def test_what_is_not_plainly_allowed_is_not(
    server: stub.Stub, stub_session: api.Api, status: Any
) -> None:
    """Only a plain yes is one."""
    assert await review(server, stub_session, token=KNOWN, access={"status": status}) == ("ann", False)


async def test_a_server_that_fails_says_nothing_of_rights(server: stub.Stub, stub_session: api.Api) -> None:
    """An error is an error, and neither a yes nor a no."""
    server.on("POST", TOKENS, stub.status(403, "you may not ask", reason="Forbidden"))

    with pytest.raises(errors.Forbidden, match="you may not ask"):
        await access_reviews.review(stub_session, "secret", "/debug/ledger")


async def test_the_shipped_role_is_what_it_takes(berth: clusters.Cluster, admin: api.Api) -> None:
    """An account without the role may not read the pages, with it it may, and only them."""
    namespace = berth.namespace("reviews")
    token = berth.token(namespace, "default")
    before = await access_reviews.review(admin, token, "/debug/ledger")
    berth.kubectl(
        *("create", "clusterrolebinding", f"{namespace}-debug", "--clusterrole=berth-debug"),
        f"--serviceaccount={namespace}:default",
    )

    user = f"system:serviceaccount:{namespace}:default"
    assert before == (user, False)

    async def may_read() -> bool:
        return await access_reviews.review(admin, token, "/debug/ledger") == (user, True)

    await waiting.eventually(may_read, what="the server to know of the binding")
    assert await access_reviews.review(admin, token, "/debug/pprof/heap") == (user, False)
    assert await access_reviews.review(admin, "made-up", "/debug/ledger") is None
