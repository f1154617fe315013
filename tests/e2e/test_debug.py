"""The operator's pages and metrics, of a real operator on a real API server, and who may read them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from berth_operator.scheduling.explain import sentences
from e2e import conditions, fleet
from e2e import stage as stages
from support import manifests
from testbed import pages, ports, waiting

LISTENING: Final = fleet.ROOT / "manifests" / "listen" / "rbac.yaml"


OPEN: Final = [("/healthz", 200), ("/readyz", 200), ("/metrics", 200)]


@pytest.fixture
def port() -> int:
    """Yield a port for the pages of an operator."""
    return ports.free()


def read(port: int, path: str) -> str:
    """Read a page that must be there."""
    status, text = pages.get(port, path)
    assert status == 200, text
    return text


@pytest.fixture
async def waiting_pod(stage: stages.Stage, port: int) -> None:
    """Have one pod bound, and another told that it is too large."""
    await stage.nodes(**{f"{stage.namespace}-n1": "2xT4"})
    await stage.deciding_operator("--listen", f"127.0.0.1:{port}", "--audit-period", "0.5")
    await stage.placed(manifests.pod("fits"))
    await stage.waiting_pod(manifests.pod("large", 2))


def samples(text: str) -> dict[str, float]:
    """Read the metrics."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@pytest.mark.usefixtures("waiting_pod")
async def test_a_bound_and_a_refused_pod_show_in_the_metrics(port: int) -> None:
    """The metrics tell what was bound and refused, by whom, and what was written for it."""

    def audited() -> dict[str, float] | None:
        found = samples(read(port, "/metrics"))
        return found if found["berth_ledger_audits_total"] > 1 else None

    found = await waiting.eventually(audited, what="two audits of the ledger")

    expected = {
        'berth_scheduling_attempts_total{result="bound"}': 1,
        "berth_placement_duration_seconds_count": 1,
        'berth_api_writes_total{code="2xx",resource="pods/binding",verb="create"}': 1,
        'berth_backlog_pods{state="unschedulable"}': 1,
        "berth_cards": 2,
        "berth_cards_free": 1,
        "berth_leader": 1,
        "berth_ledger_drift": 0,
    }
    assert expected.items() <= found.items()
    assert found['berth_scheduling_attempts_total{result="unschedulable"}'] >= 1
    assert found['berth_refusals_total{reason="Full"}'] >= 1
    assert found["process_resident_memory_bytes"] > 0


@pytest.mark.usefixtures("waiting_pod")
async def test_a_waiting_pod_is_explained_and_refused_the_same_from_a_snapshot(
    stage: stages.Stage, port: int, tmp_path: Path
) -> None:
    """What the pod's condition says the page says of each card; the simulation refuses it no otherwise."""
    title = f"{stage.namespace}/large"

    async def agreed() -> tuple[str, dict[str, Any]] | None:
        # The pod shows the counts at once, and what would help when there was time for a closer look.
        condition = conditions.scheduled((await stage.pods())["large"])
        text = read(port, f"/debug/explain?pod={title}")
        whole = sentences.BUDGET_EXHAUSTED not in text
        return (
            (text, condition)
            if whole and text.splitlines()[0] == f"{title}: {condition['message']}"
            else None
        )

    text, condition = await stage.until("the page to say what the pod shows", agreed)
    waiting = next(one for one in json.loads(read(port, "/debug/backlog")) if one["pod"] == title)
    held = json.loads(read(port, f"/debug/ledger?node={stage.namespace}-n1"))
    newest = json.loads(read(port, "/debug/decisions"))
    explained = json.loads(read(port, f"/debug/explain?pod={title}&format=json"))
    where = tmp_path / "snapshot.yaml"
    where.write_text(read(port, "/debug/snapshot?format=yaml"))
    found = await asyncio.to_thread(simulated, where)

    assert "in use" in text
    assert (waiting["state"], waiting["reason"]) == ("unschedulable", condition["message"])
    assert [one["title"] for one in held["holds"]] == [f"{stage.namespace}/fits"]
    assert {one["answer"]["kind"] for one in newest} == {"Bind", "Wait"}
    assert found.keys() == {title}
    assert found[title]["node"] is None
    again = cards_refused(found[title]["refusals"], "message")
    assert again == cards_refused(explained["refusals"], "detail")


def simulated(where: Path) -> dict[str, Any]:
    """Place what a file has waiting, and give what became of each pod."""
    ended = subprocess.run(
        [sys.executable, "-m", "berth_operator.simulation", "place", "-o", "json", str(where)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {one["pod"]: one for one in map(json.loads, ended.stdout.splitlines())}


def cards_refused(refusals: list[dict[str, Any]], words: str) -> set[tuple[str, str, str, str]]:
    """Return the refusals of cards."""
    return {(one["node"], one["device"], one["reason"], one[words]) for one in refusals if one["device"]}


async def test_rights_decide_at_an_open_address(stage: stages.Stage, port: int) -> None:
    """Without a token nobody is known, without the role nobody may, and with it the page is there.

    Where the operator itself lacks the right to ask about tokens, the page says what to apply.
    """
    await stage.deciding_operator("--listen", f"0.0.0.0:{port}")
    token = stage.cluster.token(stage.namespace, "default")
    unable, sentence = pages.get(port, "/debug/backlog", token=token)

    stage.cluster.apply(LISTENING)
    forbidden = await until_asked(port, token, but=unable)
    stage.cluster.kubectl(
        *("create", "clusterrolebinding", f"{stage.namespace}-debug", "--clusterrole=berth-debug"),
        f"--serviceaccount={stage.namespace}:default",
    )
    answer = await until_asked(port, token, but=403)
    unknown = [pages.get(port, "/debug/backlog", token=words) for words in ("", "made-up")]
    stage.cluster.kubectl("delete", "-f", str(LISTENING))

    user = f"system:serviceaccount:{stage.namespace}:default"
    no = "no role of theirs has it among its nonResourceURLs."
    assert unable == 503
    assert sentence.endswith(f"kubectl apply -f {LISTENING.relative_to(fleet.ROOT)}.\n")
    assert forbidden == (403, f"{user} may not get /debug/backlog: {no}\n")
    assert answer == (200, "[]\n")
    assert unknown == [
        (401, "/debug/backlog needs a bearer token.\n"),
        (401, "The API server does not know this token.\n"),
    ]
    assert [(path, pages.get(port, path)[0]) for path, _ in OPEN] == OPEN


async def test_metrics_can_be_closed_too(stage: stages.Stage, port: int) -> None:
    """Whoever chose it needs a token for the metrics as well."""
    stage.operator("--listen", f"0.0.0.0:{port}", "--metrics-auth", "token")

    answer = await waiting.eventually(lambda: pages.get(port, "/metrics")[0], what="an answer")

    assert answer == 401


async def until_asked(port: int, token: str, *, but: int) -> pages.Answer:
    """Ask for a page until the status is another than this one."""

    def other() -> pages.Answer | None:
        answer = pages.get(port, "/debug/backlog", token=token)
        return answer if answer[0] != but else None

    return await waiting.eventually(other, what=f"another status than {but}", seconds=30)
