"""The pages under /debug: what they tell, in which form, and how they answer requests without an answer."""

import asyncio
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from berth_crds import card_load
from berth_crds.client import errors
from berth_operator.http_api import long_answers, pages, server, views
from berth_operator.scheduling.decisions import Reason, Refusal
from http_api import served_pages
from support import builders, ledgers, timeless
from support.other_task import OtherTask

FAULTY = dataclasses.replace(
    builders.pod_info("faulty"), faults=(Refusal(Reason.INVALID_REQUEST, detail="nonsense"),)
)


@pytest.mark.parametrize(
    ("path", "listed"),
    [("/", server.ABOUT), ("/debug", pages.ABOUT), ("/debug/", pages.ABOUT)],
    ids=["all", "debug", "debug with a slash"],
)
async def test_what_is_there_is_listed(path: str, listed: Mapping[str, str]) -> None:
    """Nobody needs a token, nor the manual, to find the pages; reading them is another matter."""
    status, shown = await served_pages.serve(local=False).ask(path)

    assert status == 200
    assert [tuple(line.split(maxsplit=1)) for line in shown.splitlines()] == list(listed.items())


async def test_every_page_is_listed_and_for_reading() -> None:
    """No route is served that the list leaves out, nor one that could change anything."""
    routes = list(served_pages.serve().application().router.routes())

    paths = {route.resource.canonical for route in routes if route.resource}
    assert paths - {"/", "/debug", "/debug/"} == server.ABOUT.keys()
    assert {route.method for route in routes} <= {"GET", "HEAD"}


async def test_the_backlog_shows_why_and_for_what() -> None:
    """Of each waiting pod it has the reason, the attempts, the pause and what it waits for."""
    served = served_pages.serve(cards=2)
    ledgers.add_waiting(served.ledger, "large", 5)
    served.ledger.pod_waiting(FAULTY, gated=False)
    served.ledger.pod_waiting(builders.pod_info("gated"), gated=True)
    served.loop.round()
    ledgers.add_waiting(served.ledger, "new", 1)

    found = {pod["pod"]: pod for pod in await served.read("/debug/backlog")}

    large, faulty, new = (found[f"ml/{name}"] for name in ("large", "faulty", "new"))
    assert large["reason"].startswith("0/1 nodes are available: ")
    assert (large["attempts"], large["notBeforeSeconds"]) == (1, 0.1)
    assert large["waitsFor"] == ["DeviceChanged", "NodeChanged"]
    assert (faulty["reason"], faulty["waitsFor"]) == ("nonsense", ["an edit of the pod"])
    assert (new["state"], new["reason"], found["ml/gated"]["state"]) == ("active", None, "gated")


async def test_a_bind_without_an_answer_is_in_the_backlog() -> None:
    """A pod that is neither bound nor to be tried has not vanished: the page tells where it goes."""
    served = served_pages.serve(cards=2)
    ledgers.add_waiting(served.ledger, "open", 1)
    ledgers.assume(served.ledger, "open")
    served.loop.reporter.reasons.not_bound("uid-open", "Bind not confirmed yet, retrying: no route")

    (found,) = await served.read("/debug/backlog")

    assert (found["state"], found["node"], found["sinceSeconds"]) == ("binding", "n1", 0.0)
    assert found["reason"] == "Bind not confirmed yet, retrying: no route"
    sentence = "Pod ml/open does not wait: its bind to n1 is under way.\n"
    assert await served.ask("/debug/explain?pod=ml/open") == (404, sentence)


async def test_why_it_waited_is_not_why_it_is_being_bound() -> None:
    """A pod whose bind is under way shows no reason of before; its binds stand in order."""
    served = served_pages.serve(cards=2)
    served.ledger.pod_bound(builders.hold("held", "n1", [0, 1]))
    for name in ("b", "a"):
        ledgers.add_waiting(served.ledger, name)
    served.loop.round()
    before = await served.read("/debug/backlog")
    served.ledger.pod_over("uid-held")
    served.now.advance(10.0)
    for name in ("b", "a"):
        served.loop.reporter.reasons.pod_placed(ledgers.assume(served.ledger, name).uid)

    found = await served.read("/debug/backlog")

    assert all(pod["reason"].startswith("0/1 nodes are available: ") for pod in before)
    assert [(pod["pod"], pod["state"], pod["reason"]) for pod in found] == [
        ("ml/a", "binding", None),
        ("ml/b", "binding", None),
    ]


async def test_the_ledger_shows_who_holds_what() -> None:
    """Of a node it shows the devices, what is used of each, and every hold with its state."""
    served = served_pages.serve(nodes=2)
    served.ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(served.ledger, "coming", 2)
    ledgers.assume(served.ledger, "coming")

    n1, n2 = await served.read("/debug/ledger")

    assert await served.read("/debug/ledger?node=n1") == n1
    assert [card["used"]["pods"] for card in n1["devices"]] == [1, 0]
    assert [(hold["title"], hold["state"]) for node in (n1, n2) for hold in node["holds"]] == [
        ("ml/held", "confirmed"),
        ("ml/coming", "assumed"),
    ]


async def test_the_ledger_shows_what_was_measured() -> None:
    """Of each card what counts now, and nothing where nothing does."""
    served = served_pages.serve(nodes=1)
    served.ledger.loads.report("n1", card_load.read("v1 1:95,,,80,1024"), 0.0)

    (n1,) = await served.read("/debug/ledger")

    assert n1["devices"][0]["load"] is None
    assert n1["devices"][1]["load"] == {"utilization": 95, "power": 80, "free_memory": 2**30}


@pytest.mark.parametrize(
    ("path", "view"),
    [("/debug/backlog", "_tried"), ("/debug/ledger", "node"), ("/debug/decisions", "decision_fields")],
)
async def test_others_have_their_turn_while_a_long_page_is_made(
    path: str, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page reads everything in one go, and none leaves anything out: pods are bound in between."""
    # Given a hundred nodes, and as many pods that wait and were decided for
    served, other, turns = served_pages.serve(nodes=100, cards=1), OtherTask(), set[int]()
    for at in range(100):
        ledgers.add_waiting(served.ledger, f"large-{at}", 2)
    served.loop.round()

    # When a page is made while another task counts its turns
    make = getattr(views, view)

    def recorded(*given: Any) -> Any:
        turns.add(other.turns)
        return make(*given)

    monkeypatch.setattr(views, view, recorded)
    async with timeless.beside(other.run()):
        found = await served.read(path)

    # Then it was made in several, and each item is there once
    assert len({item.get("pod") or item["node"] for item in found}) == len(found) == 100
    assert len(turns) > 2


async def test_explanations_let_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask, one explanation is worked out at a time, and as much time passes in between."""
    served, explanation, begun = served_pages.serve(cards=1), views.explanation, list[float]()
    ledgers.add_waiting(served.ledger)

    def slow(*given: Any) -> Any:
        begun.append(asyncio.get_running_loop().time())
        served.now.advance(0.05)
        return explanation(*given)

    monkeypatch.setattr(views, "explanation", slow)
    async with served.client() as client:
        await asyncio.gather(*(client.get("/debug/explain?pod=ml/p") for _ in range(5)))

    assert len(begun) == 5
    assert all(after - before > 0.045 for before, after in itertools.pairwise(begun))


async def test_an_explanation_is_a_table_for_people_and_fields_for_programs() -> None:
    """Without a format it is the sentence and the table of all cards; JSON has what would help, too."""
    served = served_pages.serve(cards=1)
    served.ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(served.ledger)

    _, text = await served.ask("/debug/explain?pod=ml/p")
    fields = await served.read("/debug/explain?pod=ml/p&format=json")

    sentence, _, head, *_ = text.splitlines()
    assert sentence.startswith("ml/p: 0/1 nodes are available: 1 has no free card. Would fit if GPU-n1-0 ")
    assert head.split() == ["NODE", "DEVICE", "UUID", "REASON", "WANTED", "FREE"]
    assert (fields["total"], fields["fits"]) == (1, 0)
    assert fields["counts"] == [{"reason": "Full", "detail": "", "nodes": 1}]
    assert [(card["device"], card["reason"]) for card in fields["refusals"]] == [("GPU-n1-0", "InUse")]
    assert fields["changes"][0] == "would fit if GPU-n1-0 of n1 were freed"


async def test_where_nodes_are_few_each_card_is_looked_at() -> None:
    """A simple request is explained to the last card of as many nodes as are called few."""
    served = served_pages.serve(nodes=views.FEW_NODES, cards=1)
    for at in range(1, views.FEW_NODES + 1):
        served.ledger.pod_bound(builders.hold(f"held-{at}", f"n{at}", [0]))
    ledgers.add_waiting(served.ledger)

    fields = await served.read("/debug/explain?pod=ml/p&format=json")

    assert [node["diagnosed"] for node in fields["nodes"]] == [True] * views.FEW_NODES


@pytest.mark.parametrize(
    ("gated", "sentence"),
    [
        pytest.param(False, "1/1 nodes are available", id="tried"),
        pytest.param(True, f"{views.GATED}1/1 nodes are available", id="gated"),
    ],
)
async def test_what_holds_a_gated_pod_is_explained(gated: bool, sentence: str) -> None:  # noqa: FBT001
    """That it would fit does not hide why nobody places it, and is explained all the same."""
    served = served_pages.serve()
    served.ledger.pod_waiting(builders.pod_info(), gated=gated)
    served.ledger.pod_waiting(FAULTY, gated=False)

    assert (await served.ask("/debug/explain?pod=ml/p"))[1].startswith(f"ml/p: {sentence}")
    assert (await served.read("/debug/explain?pod=ml/p&format=json"))["sentence"].startswith(sentence)
    assert (await served.ask("/debug/explain?pod=ml/faulty"))[1].startswith("ml/faulty: nonsense")
    assert (await served.read("/debug/explain?pod=ml/faulty&format=json"))["sentence"].startswith("nonsense")


async def test_the_last_decisions_come_newest_first() -> None:
    """Each with the moment, the answer and a digest of what it was made on."""
    served = served_pages.serve(cards=1)
    for name in ("large", "later"):
        ledgers.add_waiting(served.ledger, name, 5)
        served.loop.round()
        served.now.advance(60)

    last, first = await served.read("/debug/decisions")

    assert (last["pod"], first["pod"]) == ("ml/later", "ml/large")
    assert first["time"] == "2025-01-01T12:00:00.000+00:00"
    assert first["answer"]["kind"] == "Wait"
    assert first["answer"]["counts"] == [{"reason": "TooFewCards", "detail": "", "nodes": 1}]
    assert set(first["inputs"]) == {"inventory", "workload_model", "request"}


@pytest.mark.parametrize("count", [0, 1, long_answers.AT_ONCE, 2 * long_answers.AT_ONCE + 1])
async def test_a_snapshot_is_handed_through(count: int) -> None:
    """What was listed comes back as it is, as YAML for those who read it."""
    items = [{"kind": "Node", "metadata": {"name": f"ü{at}"}} for at in range(count)]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    served = served_pages.serve(listed=items)

    assert await served.read("/debug/snapshot") == listed
    assert yaml.safe_load((await served.ask("/debug/snapshot?format=yaml"))[1]) == listed


MISTAKES = {
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
    "a node that steers a terminal": (
        "/debug/ledger?node=%1b%5b2J%0aforged",
        404,
        r"There is no node \x1b[2J forged.",
    ),
    "a pod that steers a terminal": (
        "/debug/explain?pod=%1b%5b2J%0a/%e2%80%ae",
        404,
        r"There is no pod \x1b[2J /\u202e that waits for this scheduler.",
    ),
    "a form that steers a terminal": (
        "/debug/backlog?format=%1b%5b2J%0a",
        400,
        r"There is no format \x1b[2J : it is one of json, yaml.",
    ),
}


@pytest.mark.parametrize(("path", "status", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_mistake_is_one_sentence(path: str, status: int, sentence: str) -> None:
    """A request that makes no sense is answered with one printable line, and nothing else."""
    served = served_pages.serve()
    served.ledger.pod_bound(builders.hold("held", "n1", [0]))

    assert await served.ask(path) == (status, f"{sentence}\n")


NO_ROUTE = errors.Unreachable("no route", ambiguous=True)


@pytest.mark.parametrize(
    ("fields", "path", "sentence"),
    [
        ({"ready": False}, "/debug/ledger", "The picture of the cluster is not complete yet."),
        ({"listed": NO_ROUTE}, "/debug/snapshot", "The cluster cannot be listed: no route."),
    ],
    ids=["before everything has been read", "a list that fails"],
)
async def test_half_a_picture_is_not_shown(fields: dict[str, Any], path: str, sentence: str) -> None:
    """No page pretends to know the cluster, nor shows half a list."""
    assert await served_pages.serve(**fields).ask(path) == (503, f"{sentence}\n")


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    """The metrics come as text with the version of its format."""
    served = served_pages.serve(cards=1)
    ledgers.add_waiting(served.ledger, "large", 5)
    served.loop.round()

    async with served.client() as client:
        answer = await client.get("/metrics")

        assert 'berth_scheduling_attempts_total{result="unschedulable"} 1.0' in await answer.text()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
