"""Who is let in: this machine where nobody else can come, else whoever the API server vouches for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from berth_crds.client import errors
from berth_operator.http_api import auth
from http_api import desks

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


async def test_this_machine_needs_no_token() -> None:
    """Behind a loopback address nobody is asked for a token, and the API server for nothing."""
    desk = desks.desk(local=True)

    assert await desk.ask(PAGE) == (200, "[]\n")
    assert desk.reviewer.asked == []


async def test_a_web_page_is_not_this_machine() -> None:
    """A browser that was led here under another name has to show a token, as all others."""
    desk = desks.desk(local=True)

    status, _ = await desk.ask(PAGE, Host="evil.example.com")

    assert status == 401


async def test_the_same_machine_is_a_stranger_at_an_open_address() -> None:
    """Where others can reach the port, coming from this machine means nothing."""
    desk = desks.desk(local=False)

    assert await desk.ask(PAGE) == (401, "/debug/backlog needs a bearer token.\n")


@pytest.mark.parametrize(
    ("token", "status", "sentence"),
    [
        ("may", 200, "[]\n"),
        (
            "mayNot",
            403,
            "user-mayNot may not get /debug/backlog: no role of theirs has it among its nonResourceURLs.\n",
        ),
        ("unknown", 401, "The API server does not know this token.\n"),
    ],
)
async def test_rights_decide(token: str, status: int, sentence: str) -> None:
    """A known token with the right is let in, one without it is forbidden, an unknown one is nobody."""
    desk = desks.desk(local=False, reviewer=desks.Reviewer(may={PAGE}, mayNot=set()))

    assert await desk.ask(PAGE, token=token) == (status, sentence)


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
    desk = desks.desk(local=False, reviewer=desks.Reviewer(may={PAGE}))

    async with desk.client() as client:
        headers = {"Authorization": "Bearer may"}
        first = await client.get(PAGE, headers=headers)
        second = await client.get("/debug/ledger", headers=headers)

    assert (first.status, second.status) == (200, 403)


async def test_who_is_unknown_is_told_how_to_log_in() -> None:
    """A 401 names the scheme, as HTTP asks for."""
    desk = desks.desk(local=False)

    async with desk.client() as client:
        answer = await client.get(PAGE, headers={"Authorization": "Basic bWU6bWU="})

    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_answers_are_remembered_for_a_few_seconds() -> None:
    """The API server is asked once for a while, and again when that is over."""
    desk = desks.desk(local=False, reviewer=desks.Reviewer(may={PAGE}))

    async with desk.client() as client:
        for seconds in (0.0, 1.0, auth.CACHE_SECONDS):
            desk.now.advance(seconds)
            await client.get(PAGE, headers={"Authorization": "bearer may"})

    assert desk.reviewer.asked == [("may", PAGE)] * 2


async def test_a_right_that_was_taken_away_is_gone_soon() -> None:
    """What is remembered does not outlive the right for more than those seconds."""
    desk = desks.desk(local=False, reviewer=desks.Reviewer(may={PAGE}))

    async with desk.client() as client:
        headers = {"Authorization": "Bearer may"}
        before = await client.get(PAGE, headers=headers)
        desk.reviewer.rights["may"] = set()
        desk.now.advance(auth.CACHE_SECONDS)
        after = await client.get(PAGE, headers=headers)

    assert (before.status, after.status) == (200, 403)


async def test_what_cannot_be_asked_is_a_no() -> None:
    """Without an answer of the API server nobody is let in, and that is not remembered."""
    desk = desks.desk(local=False, reviewer=desks.Reviewer(may={PAGE}))
    desk.reviewer.trouble = errors.Unreachable("no route", ambiguous=True)

    async with desk.client() as client:
        headers = {"Authorization": "Bearer may"}
        failed = await client.get(PAGE, headers=headers)
        said = await failed.text()
        desk.reviewer.trouble = None
        later = await client.get(PAGE, headers=headers)

    assert (failed.status, later.status) == (503, 200)
    assert said == "The API server cannot be asked about the token: no route.\n"


async def test_a_right_that_the_operator_lacks_is_named() -> None:
    """Where the operator may not ask about tokens, the page says what to apply."""
    desk = desks.desk(local=False)
    desk.reviewer.trouble = errors.Forbidden(403, "cannot create resource tokenreviews", reason="Forbidden")

    status, sentence = await desk.ask(PAGE, token="any")  # noqa: S106

    asked = "The operator may not ask the API server whose token this is"
    assert (status, sentence) == (503, f"{asked}: kubectl apply -f {auth.RIGHTS}.\n")


def test_what_is_to_be_applied_is_there() -> None:
    """The file that the page names is one that is shipped."""
    assert (Path(__file__).resolve().parents[2] / auth.RIGHTS).is_file()


async def test_who_is_not_heard_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask with made-up tokens, nobody waits for ever to be told that nothing is known."""
    desk = desks.desk(local=False)
    monkeypatch.setattr(auth, "REVIEW_SECONDS", 0.1)

    async def never(_token: str, _path: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(desk.reviewer, "review", never)

    async with asyncio.timeout(20):
        said = await asyncio.gather(
            *(desk.ask(PAGE, token=f"t{at}") for at in range(2 * auth.REVIEWS_AT_ONCE))
        )

    assert set(said) == {(503, "The API server cannot be asked about the token: no answer in time.\n")}


async def test_a_crowd_with_made_up_tokens_is_turned_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a review holds a place that others need, so only a few may."""
    desk, reviewed = desks.desk(local=False), asyncio.Event()

    async def later(_token: str, _path: str) -> None:
        await reviewed.wait()

    monkeypatch.setattr(desk.reviewer, "review", later)
    async with desk.client() as client, asyncio.timeout(20):
        crowd = [
            asyncio.create_task(client.get(PAGE, headers={"Authorization": f"Bearer t{at}"}))
            for at in range(2 * auth.MOST_WAITING)
        ]
        done, waiting = set[asyncio.Task[Any]](), set(crowd)
        while len(done) < auth.MOST_WAITING:
            some, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= some
        early = {one.result().status for one in done}
        reviewed.set()
        late = {(await one).status for one in waiting}

    assert (early, late) == ({503}, {401})


async def test_what_is_remembered_is_bounded() -> None:
    """Strangers with ever new tokens cannot fill the memory."""
    guard = auth.Guard(desks.Reviewer(), clock=lambda: 0.0, local=False)

    for number in range(3 * auth.MOST_CACHED):
        guard._remember((str(number), PAGE), auth._Cached(1.0, None))

    assert len(guard._cache) <= auth.MOST_CACHED


@pytest.mark.parametrize(("guarded", "status"), [(False, 200), (True, 401)], ids=["open", "token"])
async def test_metrics_are_open_unless_chosen_otherwise(guarded: bool, status: int) -> None:  # noqa: FBT001
    """The metrics name no pod and are open; whoever wants it can have them behind a token too."""
    desk = desks.desk(local=False, metrics_guarded=guarded)

    assert (await desk.ask("/metrics"))[0] == status
    assert (await desk.ask("/healthz"))[0] == 200
