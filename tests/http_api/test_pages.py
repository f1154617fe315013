"""The pages under /debug: what they tell, in which form, and what they say to questions without an answer."""

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from berth_crds.client import errors
from berth_operator.http_api import long_answers, pages, server, views
from berth_operator.scheduling.decisions import Reason, Refusal
from http_api import desks
from support import builders, ledgers


async def read(desk: desks.Desk, path: str) -> Any:
    """Read a page as JSON."""
    status, text = await desk.ask(path)
    assert status == 200, text
    return json.loads(text)


@pytest.mark.parametrize(
    ("path", "listed"),
    [("/", server.ABOUT), ("/debug", pages.ABOUT), ("/debug/", pages.ABOUT)],
    ids=["all", "debug", "debug with a slash"],
)
async def test_what_is_there_is_listed(path: str, listed: Mapping[str, str]) -> None:
    """Nobody needs a token, nor the manual, to find the pages; reading them is another matter."""
    desk = desks.desk(local=False)

    status, shown = await desk.ask(path)

    assert status == 200
    assert [tuple(line.split(maxsplit=1)) for line in shown.splitlines()] == list(listed.items())


async def test_every_page_is_listed() -> None:
    """No route is served that the list leaves out."""
    routes = {
        route.resource.canonical for route in desks.desk().application().router.routes() if route.resource
    }

    assert routes - {"/", "/debug", "/debug/"} == server.ABOUT.keys()


async def test_the_backlog_tells_why_and_for_what() -> None:
    """Of each waiting pod it says the reason, the attempts, the pause and what it waits for."""
    desk = desks.desk(cards=2)
    ledgers.add_waiting(desk.ledger, "large", 5)
    fault = Refusal(Reason.INVALID_REQUEST, detail="nonsense")
    desk.ledger.pod_waiting(dataclasses.replace(builders.candidate("odd"), faults=(fault,)), gated=False)
    desk.ledger.pod_waiting(builders.candidate("gated"), gated=True)
    desk.loop.round()
    ledgers.add_waiting(desk.ledger, "new", 1)

    found = {one["pod"]: one for one in await read(desk, "/debug/backlog")}

    assert found["ml/large"]["reason"].startswith("0/1 nodes are available: ")
    assert found["ml/large"]["attempts"] == 1
    assert found["ml/large"]["notBeforeSeconds"] == 0.1
    assert found["ml/large"]["waitsFor"] == ["DeviceChanged", "NodeChanged"]
    assert (found["ml/odd"]["reason"], found["ml/odd"]["waitsFor"]) == ("nonsense", ["an edit of the pod"])
    assert (found["ml/new"]["state"], found["ml/new"]["reason"]) == ("active", None)
    assert found["ml/gated"]["state"] == "gated"


async def test_a_bind_without_an_answer_is_in_the_backlog() -> None:
    """A pod that is neither bound nor to be tried has not vanished: the page tells where it goes."""
    desk = desks.desk(cards=2)
    ledgers.add_waiting(desk.ledger, "open", 1)
    ledgers.assume(desk.ledger, "open")
    desk.loop.reporter.reasons.bind_failed("uid-open", "no clear answer yet: no route")

    (found,) = await read(desk, "/debug/backlog")
    status, sentence = await desk.ask("/debug/explain?pod=ml/open")

    assert (found["state"], found["node"], found["sinceSeconds"]) == ("binding", "n1", 0.0)
    assert found["reason"] == "no clear answer yet: no route"
    assert (status, sentence) == (404, "Pod ml/open does not wait: its bind to n1 is under way.\n")


async def test_why_it_waited_is_not_why_it_is_being_bound() -> None:
    """A pod whose bind is under way shows no reason of before; its binds stand in order."""
    desk = desks.desk(cards=2)
    desk.ledger.pod_bound(builders.hold("held", "n1", [0, 1]))
    for name in ("b", "a"):
        ledgers.add_waiting(desk.ledger, name)
    desk.loop.round()
    (before, _) = await read(desk, "/debug/backlog")
    desk.ledger.pod_over("uid-held")
    desk.now.advance(10.0)
    for name in ("b", "a"):
        bind = ledgers.assume(desk.ledger, name)
        desk.loop.reporter.reasons.pod_placed(bind.uid)

    found = await read(desk, "/debug/backlog")

    assert before["reason"].startswith("0/1 nodes are available: ")
    assert [(one["pod"], one["state"], one["reason"]) for one in found] == [
        ("ml/a", "binding", None),
        ("ml/b", "binding", None),
    ]


async def test_the_ledger_tells_who_holds_what() -> None:
    """Of a node it shows the devices, what is used of each, and every hold with its state."""
    desk = desks.desk(nodes=2)
    desk.ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(desk.ledger, "coming", 2)
    ledgers.assume(desk.ledger, "coming")

    one = await read(desk, "/debug/ledger?node=n1")
    everything = await read(desk, "/debug/ledger")

    assert [card["used"]["pods"] for card in one["devices"]] == [1, 0]
    assert [(hold["title"], hold["state"]) for hold in one["holds"]] == [("ml/held", "confirmed")]
    assert everything[0] == one
    assert [(hold["title"], hold["state"]) for hold in everything[1]["holds"]] == [("ml/coming", "assumed")]


async def test_many_nodes_are_all_told() -> None:
    """However often others get their turn in between, every node is there once."""
    count = 2 * long_answers.AT_ONCE + 1
    desk = desks.desk(nodes=count, cards=1)

    found = await read(desk, "/debug/ledger")

    assert len({node["node"] for node in found}) == len(found) == count


@pytest.mark.parametrize("path", ["/debug/backlog", "/debug/ledger", "/debug/decisions"])
async def test_others_have_their_turn_while_a_long_page_is_made(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page reads everything in one go: pods are bound, and the lead is kept, in between."""
    # Given a hundred nodes, and as many pods that wait and were decided for
    desk, turns, seen = desks.desk(nodes=100, cards=1), itertools.count(), set[int]()
    for at in range(100):
        ledgers.add_waiting(desk.ledger, f"large-{at}", 2)
    desk.loop.round()

    # When a page is made while another task counts its turns
    for name in ("_tried", "node", "decision_fields"):
        monkeypatch.setattr(views, name, noting(getattr(views, name), seen, lambda: latest[0]))
    latest = [0]

    async def turn() -> None:
        while True:
            latest[0] = next(turns)
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    found = await read(desk, path)
    turning.cancel()

    # Then it was made in several
    assert len(found) == 100
    assert len(seen) > 2


def noting(view: Callable[..., Any], seen: set[int], turn: Callable[[], int]) -> Callable[..., Any]:
    """Note in which turn of the loop a view was made."""

    def noted(*given: Any) -> Any:
        seen.add(turn())
        return view(*given)

    return noted


async def test_explanations_let_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask, one explanation is worked out at a time, and as much time passes in between."""
    desk, why, begun = desks.desk(cards=1), views.explanation, list[float]()
    ledgers.add_waiting(desk.ledger)

    def slowly(*given: Any) -> Any:
        begun.append(asyncio.get_running_loop().time())
        desk.now.advance(0.05)
        return why(*given)

    monkeypatch.setattr(views, "explanation", slowly)
    async with desk.client() as client:
        await asyncio.gather(*(client.get("/debug/explain?pod=ml/p") for _ in range(5)))

    assert len(begun) == 5
    assert all(after - before > 0.045 for before, after in itertools.pairwise(begun))


async def test_an_explanation_is_a_table_for_people() -> None:
    """Without a word on the form it is the sentence and the table of all cards."""
    desk = desks.desk(cards=1)
    desk.ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(desk.ledger)

    status, text = await desk.ask("/debug/explain?pod=ml/p")

    sentence, _, head, *_ = text.splitlines()
    assert status == 200
    assert sentence.startswith("ml/p: 0/1 nodes are available: 1 has no free card. Would fit if GPU-n1-0 ")
    assert head.split() == ["NODE", "DEVICE", "UUID", "WHY", "NOT", "WANTED", "FREE"]
    assert "GPU-n1-0" in text


async def test_an_explanation_is_fields_for_programs() -> None:
    """As JSON it has the sentence, the refusals and what would help."""
    desk = desks.desk(cards=1)
    desk.ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(desk.ledger)

    told = await read(desk, "/debug/explain?pod=ml/p&format=json")

    assert (told["total"], told["fits"]) == (1, 0)
    assert told["counts"] == [{"reason": "Full", "detail": "", "nodes": 1}]
    assert [(one["device"], one["reason"]) for one in told["refusals"]] == [("GPU-n1-0", "InUse")]
    assert told["changes"][0] == "would fit if GPU-n1-0 of n1 were freed"


async def test_where_nodes_are_few_each_card_is_looked_at() -> None:
    """A simple request is explained to the last card of as many nodes as are called few."""
    desk = desks.desk(nodes=views.FEW_NODES, cards=1)
    for at in range(1, views.FEW_NODES + 1):
        desk.ledger.pod_bound(builders.hold(f"held-{at}", f"n{at}", [0]))
    ledgers.add_waiting(desk.ledger)

    told = await read(desk, "/debug/explain?pod=ml/p&format=json")

    assert [node["looked"] for node in told["nodes"]] == [True] * views.FEW_NODES


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_request_at_fault_is_explained_by_its_fault(form: str) -> None:
    """A pod that no node was asked about is told what is wrong with it."""
    desk = desks.desk()
    fault = Refusal(Reason.INVALID_REQUEST, detail="nonsense")
    desk.ledger.pod_waiting(dataclasses.replace(builders.candidate(), faults=(fault,)), gated=False)

    status, text = await desk.ask(f"/debug/explain?pod=ml/p&format={form}")

    assert status == 200
    assert "nonsense" in text


@pytest.mark.parametrize("form", ["text", "json"])
async def test_what_holds_a_gated_pod_is_said(form: str) -> None:
    """That it would fit does not hide why nobody places it."""
    desk = desks.desk()
    desk.ledger.pod_waiting(builders.candidate(), gated=True)

    _, gated = await desk.ask(f"/debug/explain?pod=ml/p&format={form}")
    desk.ledger.pod_waiting(builders.candidate(), gated=False)
    _, free = await desk.ask(f"/debug/explain?pod=ml/p&format={form}")

    assert "It is not tried as long as it has spec.schedulingGates." in gated
    assert "schedulingGates" not in free


async def test_a_gated_pod_is_explained_too() -> None:
    """What would happen to a pod once its gates are gone can be asked before."""
    desk = desks.desk()
    desk.ledger.pod_waiting(builders.candidate(), gated=True)

    status, text = await desk.ask("/debug/explain?pod=ml/p")

    assert status == 200
    assert "fits on 1 of 1 nodes" in text


async def test_the_last_decisions_are_told_newest_first() -> None:
    """Each with the moment, the answer and a digest of what it was made on."""
    desk = desks.desk(cards=1)
    ledgers.add_waiting(desk.ledger, "large", 5)
    desk.loop.round()
    desk.now.advance(60)
    ledgers.add_waiting(desk.ledger, "odd", 3)
    desk.loop.round()

    last, first = await read(desk, "/debug/decisions")

    assert (last["pod"], first["pod"]) == ("ml/odd", "ml/large")
    assert first["time"] == "2025-01-01T12:00:00.000+00:00"
    assert first["answer"]["kind"] == "Wait"
    assert first["answer"]["counts"] == [{"reason": "TooFewCards", "detail": "", "nodes": 1}]
    assert set(first["inputs"]) == {"inventory", "lesson", "request"}


@pytest.mark.parametrize("count", [0, 1, long_answers.AT_ONCE, 2 * long_answers.AT_ONCE + 1])
async def test_a_snapshot_is_handed_through(count: int) -> None:
    """What was listed comes back as it is, as YAML for those who read it."""
    items = [{"kind": "Node", "metadata": {"name": f"ü{at}"}} for at in range(count)]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    desk = desks.desk(listed=items)

    assert await read(desk, "/debug/snapshot") == listed
    assert yaml.safe_load((await desk.ask("/debug/snapshot?format=yaml"))[1]) == listed


QUESTIONS = {
    "an unknown node": ("/debug/ledger?node=n9", 404, "There is no node n9."),
    "an unknown parameter": (
        "/debug/ledger?nod=n1",
        400,
        "There is no parameter nod: the parameters are node and format.",
    ),
    "no pod": ("/debug/explain", 400, "Say which pod: /debug/explain?pod=NAMESPACE/NAME."),
    "half a pod": ("/debug/explain?pod=p", 400, "Say which pod: /debug/explain?pod=NAMESPACE/NAME."),
    "an unknown pod": ("/debug/explain?pod=ml/x", 404, "There is no pod ml/x that waits for this scheduler."),
    "a bound pod": (
        "/debug/explain?pod=ml/held",
        404,
        "Pod ml/held does not wait: it has its place on n1.",
    ),
    "a parameter of another page": (
        "/debug/decisions?node=n1",
        400,
        "There is no parameter node: the only parameter is format.",
    ),
    "an unknown form": (
        "/debug/backlog?format=xml",
        400,
        "There is no format xml: it is one of json, yaml.",
    ),
    "an unknown form of a table": (
        "/debug/explain?pod=ml/x&format=xml",
        400,
        "There is no format xml: it is one of json, yaml, text.",
    ),
}


@pytest.mark.parametrize(("path", "status", "sentence"), QUESTIONS.values(), ids=QUESTIONS.keys())
async def test_a_mistake_is_one_sentence(path: str, status: int, sentence: str) -> None:
    """A question that makes no sense is answered with what is wrong with it, and nothing else."""
    desk = desks.desk()
    desk.ledger.pod_bound(builders.hold("held", "n1", [0]))

    assert await desk.ask(path) == (status, f"{sentence}\n")


async def test_half_a_picture_is_not_shown() -> None:
    """Before everything has been read no page pretends to know the cluster."""
    desk = desks.desk(ready=False)

    assert await desk.ask("/debug/ledger") == (503, "The picture of the cluster is not complete yet.\n")


async def test_a_cluster_that_cannot_be_listed_is_said() -> None:
    """A snapshot that fails is a sentence, and not half a list."""
    desk = desks.desk(listed=errors.Unreachable("no route", ambiguous=True))

    assert await desk.ask("/debug/snapshot") == (503, "The cluster cannot be listed: no route.\n")


async def test_nothing_can_be_changed() -> None:
    """The pages are for reading: nothing else is understood."""
    desk = desks.desk()

    async with desk.client() as client:
        answers = [await client.request(method, "/debug/backlog") for method in ("POST", "PUT", "DELETE")]

    assert [answer.status for answer in answers] == [405] * 3


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    """The metrics come as text with the version of its format."""
    desk = desks.desk(cards=1)
    ledgers.add_waiting(desk.ledger, "large", 5)
    desk.loop.round()

    async with desk.client() as client:
        answer = await client.get("/metrics")
        text = await answer.text()

    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert 'berth_scheduling_attempts_total{result="unschedulable"} 1.0' in text


@pytest.mark.parametrize(
    "path",
    [
        "/debug/ledger?node=%1b%5b2J%0aforged",
        "/debug/explain?pod=%1b%5b2J%0a/%e2%80%ae",
        "/debug/backlog?format=%1b%5b2J%0a",
    ],
)
async def test_a_question_is_quoted_plainly(path: str) -> None:
    """Who follows somebody else's link with curl gets one printable line."""
    desk = desks.desk(cards=1)

    status, sentence = await desk.ask(path)

    assert status >= 400
    assert sentence.removesuffix("\n").isprintable()
