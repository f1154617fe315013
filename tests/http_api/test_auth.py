"""Who is let in: this machine where nobody else can come, else whoever the API server knows."""

import asyncio
from pathlib import Path

import pytest

from berth_crds.client import errors
from berth_operator.http_api import auth
from http_api import served_pages

PAGE = "/debug/backlog"

PLACES = {
    "127.0.0.1:8080": True,
    "127.8.8.8:1": True,
    "[::1]:8080": True,
    "::1": True,
    "localhost:8080": True,
    "localhost": True,
    "0.0.0.0:8080": False,
    "[::]:8080": False,
    "10.0.0.7:8080": False,
    "localhost.example.com:80": False,
    "berth.example.com": False,
    "": False,
}


@pytest.mark.parametrize(("address", "here"), PLACES.items(), ids=[place or "nothing" for place in PLACES])
def test_only_loopback_addresses_are_this_machine(address: str, here: bool) -> None:  # noqa: FBT001
    """An address is this machine's only where nothing else can be meant by it."""
    assert auth.is_loopback(address) is here


ANONYMOUS = "/debug/backlog needs a bearer token.\n"
NO_RIGHT = "user-mayNot may not get /debug/backlog: no role of theirs has it among its nonResourceURLs.\n"


@pytest.mark.parametrize(
    ("local", "headers", "status", "sentence"),
    [
        pytest.param(True, {}, 200, "[]\n", id="this machine"),
        pytest.param(True, {"Host": "evil.example.com"}, 401, ANONYMOUS, id="a web page led here by a name"),
        pytest.param(False, {}, 401, ANONYMOUS, id="this machine, at an open address"),
        pytest.param(False, {"Authorization": "Basic bWU6bWU="}, 401, ANONYMOUS, id="another scheme"),
        pytest.param(False, {"Authorization": "bearer may"}, 200, "[]\n", id="a right"),
        pytest.param(False, {"Authorization": "Bearer mayNot"}, 403, NO_RIGHT, id="no right"),
        pytest.param(
            False,
            {"Authorization": "Bearer unknown"},
            401,
            "The API server does not know this token.\n",
            id="an unknown token",
        ),
    ],
)
async def test_who_may_read_a_page(local: bool, headers: dict[str, str], status: int, sentence: str) -> None:  # noqa: FBT001
    """At a loopback address whoever is on this machine, else whom the API server allows; a 401 says how."""
    reviewer = served_pages.Reviewer(may={PAGE}, mayNot=set())

    async with served_pages.serve(local=local, reviewer=reviewer).client() as client:
        answer = await client.get(PAGE, headers=headers)

        assert (answer.status, await answer.text()) == (status, sentence)
    assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)
    assert len(reviewer.asked) == (sentence != ANONYMOUS and not local)


TOKENS = {
    "a token": ("Bearer abc", "abc"),
    "another spelling": ("bearer  abc ", "abc"),
    "another scheme": ("Basic abc", ""),
    "no token": ("Bearer", ""),
    "no header": ("", ""),
    "what no token can be": ("Bearer \udcff", ""),
}


@pytest.mark.parametrize(("header", "token"), TOKENS.values(), ids=TOKENS.keys())
def test_only_a_bearer_token_is_one(header: str, token: str) -> None:
    """What is no bearer token is as good as none, and never an error of ours."""
    assert auth.bearer(header) == token


async def test_a_right_is_for_one_page() -> None:
    """Who may read one page may not read another by it, even while the first answer is remembered."""
    served = served_pages.serve(local=False, reviewer=served_pages.Reviewer(may={PAGE}))

    async with served.client("may") as client:
        answers = [await client.get(page) for page in (PAGE, "/debug/ledger")]

    assert [answer.status for answer in answers] == [200, 403]


async def test_answers_are_remembered_for_a_few_seconds() -> None:
    """The API server is asked once for a while: a right that was taken away is gone when that is over."""
    served = served_pages.serve(local=False, reviewer=served_pages.Reviewer(may={PAGE}))

    async with served.client("may") as client:
        statuses = [(await client.get(PAGE)).status]
        served.reviewer.rights["may"] = set()
        for seconds in (1.0, auth.CACHE_SECONDS):
            served.now.advance(seconds)
            statuses.append((await client.get(PAGE)).status)

    assert statuses == [200, 200, 403]
    assert served.reviewer.asked == [("may", PAGE)] * 2


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        pytest.param(
            errors.Unreachable("no route", ambiguous=True),
            "The API server cannot be asked about the token: no route.\n",
            id="no answer",
        ),
        pytest.param(
            errors.Forbidden(403, "cannot create resource tokenreviews", reason="Forbidden"),
            f"The operator may not ask the API server whose token this is: kubectl apply -f {auth.RIGHTS}.\n",
            id="no right of the operator",
        ),
    ],
)
async def test_what_cannot_be_asked_is_a_no(error: errors.ClientError, sentence: str) -> None:
    """Without an answer of the API server nobody is let in, and that is not remembered."""
    served = served_pages.serve(local=False, reviewer=served_pages.Reviewer(may={PAGE}))
    served.reviewer.trouble = error

    async with served.client("may") as client:
        failed = await client.get(PAGE)
        assert (failed.status, await failed.text()) == (503, sentence)
        served.reviewer.trouble = None

        assert (await client.get(PAGE)).status == 200


def test_what_is_to_be_applied_is_there() -> None:
    """The file that the page names is one that is shipped."""
    assert (Path(__file__).resolve().parents[2] / auth.RIGHTS).is_file()


async def test_who_is_not_reviewed_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask with made-up tokens, nobody waits for ever to learn that nothing is known."""
    served = served_pages.serve(local=False)
    monkeypatch.setattr(auth, "REVIEW_SECONDS", 0.1)
    monkeypatch.setattr(served.reviewer, "review", lambda *_: asyncio.Event().wait())

    async with served.client("any") as client, asyncio.timeout(20):
        answers = await asyncio.gather(*(client.get(PAGE) for _ in range(2 * auth.REVIEWS_AT_ONCE)))

        assert {(answer.status, await answer.text()) for answer in answers} == {
            (503, "The API server cannot be asked about the token: no answer in time.\n")
        }


async def test_a_crowd_with_made_up_tokens_is_turned_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a review holds a place that others need, so only a few may."""
    served, reviews, reviewed = served_pages.serve(local=False), list[str](), asyncio.Event()

    async def review(token: str, _path: str) -> None:
        reviews.append(token)
        await reviewed.wait()

    monkeypatch.setattr(served.reviewer, "review", review)
    async with served.client("any") as client, asyncio.timeout(20):
        crowd = asyncio.as_completed([client.get(PAGE) for _ in range(2 * auth.MOST_WAITING)])
        early = {(await next(crowd)).status for _ in range(auth.MOST_WAITING)}
        assert len(reviews) == auth.REVIEWS_AT_ONCE
        reviewed.set()
        late = {(await answer).status for answer in crowd}

    assert (early, late) == ({503}, {401})


async def test_what_is_remembered_is_bounded() -> None:
    """Strangers with ever new tokens cannot fill the memory."""
    guard = auth.Guard(served_pages.Reviewer().review, clock=lambda: 0.0, local=False)

    for number in range(3 * auth.MOST_CACHED):
        guard._remember((str(number), PAGE), (1.0, None))

    assert len(guard._cache) <= auth.MOST_CACHED


@pytest.mark.parametrize(("guarded", "status"), [(False, 200), (True, 401)], ids=["open", "token"])
async def test_metrics_are_open_unless_chosen_otherwise(guarded: bool, status: int) -> None:  # noqa: FBT001
    """The metrics name no pod and are open; whoever wants it can have them behind a token too."""
    served = served_pages.serve(local=False, metrics_guarded=guarded)

    assert (await served.ask("/metrics"))[0] == status
    assert (await served.ask("/healthz"))[0] == 200
