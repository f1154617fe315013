"""The operator's pages and metrics, of a real operator on a real API server, and who may read them."""

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e import fleet
from e2e import stage as stages
from support import manifests
from testbed import ports, waiting

Answer = tuple[int, str]
LISTENING: Final = fleet.ROOT / "manifests" / "listen" / "rbac.yaml"


class Door:
    """The port of an operator."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, *, token: str = "") -> Answer:
        """Ask for a page; 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        return 0, ""

    def read(self, path: str) -> str:
        """Read a page that must be there."""
        status, text = self.ask(path)
        assert status == 200, text
        return text


@pytest.fixture
def door() -> Door:
    """Yield a port."""
    reservation = ports.Reservation()
    reservation.release()
    return Door(reservation.port)


@pytest.fixture
def listening(base: fleet.Fleet) -> Iterator[None]:
    """Set up for the operator what it needs at an open address, as its help says."""
    base.cluster.apply(LISTENING)
    yield
    base.cluster.kubectl("delete", "-f", str(LISTENING))


async def waiting_pod(stage: stages.Stage, door: Door) -> None:
    """Have one pod bound, and another told that it is too large."""
    await stage.nodes(**{f"{stage.namespace}-n1": "2xT4"})
    await stage.deciding_operator("--listen", f"127.0.0.1:{door.port}", "--audit-period", "0.5")
    await stage.create(manifests.pod("fits"))
    await stage.until_bound("fits")
    await stage.create(manifests.pod("large", 2))
    await stage.until_told("large")


def samples(text: str) -> dict[str, float]:
    """Read the metrics."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_a_bound_and_a_refused_pod_show_in_the_metrics(stage: stages.Stage, door: Door) -> None:
    """The metrics tell what was bound and refused, by whom, and what was written for it."""
    await waiting_pod(stage, door)

    async def audited() -> dict[str, float] | None:
        found = samples(door.read("/metrics"))
        return found if found["berth_ledger_audits_total"] > 1 else None

    found = await waiting.eventually(audited, what="two audits of the ledger")

    assert found['berth_scheduling_attempts_total{result="bound"}'] == 1
    assert found['berth_scheduling_attempts_total{result="unschedulable"}'] >= 1
    assert found['berth_refusals_total{reason="Full"}'] >= 1
    assert found["berth_placement_duration_seconds_count"] == 1
    assert found['berth_api_writes_total{code="2xx",resource="pods/binding",verb="create"}'] == 1
    assert found['berth_backlog_pods{state="unschedulable"}'] == 1
    assert (found["berth_cards"], found["berth_cards_free"]) == (2, 1)
    assert (found["berth_leader"], found["berth_ledger_drift"]) == (1, 0)
    assert found["process_resident_memory_bytes"] > 0


async def test_a_waiting_pod_is_explained(stage: stages.Stage, door: Door) -> None:
    """What the pod's condition says in a sentence the page says of each card."""
    await waiting_pod(stage, door)
    title = f"{stage.namespace}/large"

    async def agreed() -> tuple[str, dict[str, Any]] | None:
        # The pod shows the counts at once, and what would help when there was time for a closer look.
        condition = stages.scheduled((await stage.pods())["large"])
        text = door.read(f"/debug/explain?pod={title}")
        return (text, condition) if text.splitlines()[0] == f"{title}: {condition['message']}" else None

    text, condition = await stage.until("the page to say what the pod shows", agreed)
    waiting = next(one for one in json.loads(door.read("/debug/backlog")) if one["pod"] == title)
    held = json.loads(door.read(f"/debug/ledger?node={stage.namespace}-n1"))
    newest = json.loads(door.read("/debug/decisions"))

    assert "in use" in text
    assert (waiting["state"], waiting["reason"]) == ("unschedulable", condition["message"])
    assert [one["title"] for one in held["holds"]] == [f"{stage.namespace}/fits"]
    assert {one["answer"]["kind"] for one in newest} == {"Bind", "Wait"}


async def test_a_snapshot_gives_the_same_refusal_elsewhere(
    stage: stages.Stage, door: Door, tmp_path: Path
) -> None:
    """What the operator refuses the simulation refuses for the same reasons, from the snapshot alone."""
    await waiting_pod(stage, door)
    explained = json.loads(door.read(f"/debug/explain?pod={stage.namespace}/large&format=json"))
    where = tmp_path / "snapshot.yaml"
    where.write_text(door.read("/debug/snapshot?format=yaml"))

    found = await asyncio.to_thread(simulated, where)

    again = found[f"{stage.namespace}/large"]
    assert again["node"] is None
    assert cards_refused(again["refusals"], "message") == cards_refused(explained["refusals"], "detail")
    assert f"{stage.namespace}/fits" not in found


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


@pytest.mark.usefixtures("listening")
async def test_rights_decide_at_an_open_address(stage: stages.Stage, door: Door) -> None:
    """Without a token nobody is known, without the role nobody may, and with it the page is there."""
    await stage.deciding_operator("--listen", f"0.0.0.0:{door.port}")
    token = stage.cluster.token(stage.namespace, "default")
    unknown, forbidden = door.ask("/debug/backlog"), door.ask("/debug/backlog", token=token)
    stage.cluster.kubectl(
        *("create", "clusterrolebinding", f"{stage.namespace}-debug", "--clusterrole=berth-debug"),
        f"--serviceaccount={stage.namespace}:default",
    )

    async def allowed() -> Answer | None:
        answer = door.ask("/debug/backlog", token=token)
        return answer if answer[0] != 403 else None

    answer = await stage.until("the role to count", allowed)

    user = f"system:serviceaccount:{stage.namespace}:default"
    no = "no role of theirs has it among its nonResourceURLs."
    assert unknown == (401, "/debug/backlog needs a bearer token.\n")
    assert forbidden == (403, f"{user} may not get /debug/backlog: {no}\n")
    assert answer == (200, "[]\n")
    assert door.ask("/debug/backlog", token="made-up") == (401, "The API server does not know this token.\n")  # noqa: S106
    assert [door.ask(path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


async def test_a_right_that_is_missing_is_named(stage: stages.Stage, door: Door) -> None:
    """Without the right to ask about tokens the page says what to apply; the others are there."""
    await stage.deciding_operator("--listen", f"0.0.0.0:{door.port}")
    token = stage.cluster.token(stage.namespace, "default")

    status, sentence = door.ask("/debug/backlog", token=token)

    assert status == 503
    assert sentence.endswith(f"kubectl apply -f {LISTENING.relative_to(fleet.ROOT)}.\n")
    assert [door.ask(path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


async def test_metrics_can_be_closed_too(stage: stages.Stage, door: Door) -> None:
    """Whoever chose it needs a token for the metrics as well."""
    await stage.deciding_operator("--listen", f"0.0.0.0:{door.port}", "--metrics-auth", "token")

    assert door.ask("/metrics")[0] == 401
