"""NICs and virtual functions of Koordinator's running pods through `place`: none is given a second time."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from berth_crds import aliases
from simulation import simulator

RDMA: Final = "koordinator.sh/rdma"
FUNCTIONS: Final = ("0000:3b:00.2", "0000:3b:00.3")
NICS: Final[list[simulator.Body]] = [
    {"uuid": "rdma-0", "type": "rdma", "minor": 0},
    {
        "uuid": "rdma-1",
        "type": "rdma",
        "minor": 1,
        "vfGroups": [{"vfs": [{"minor": number, "busID": bus} for number, bus in enumerate(FUNCTIONS)]}],
    },
]


def cluster() -> list[simulator.Body]:
    """Return a node with cards and two NICs, one of which has virtual functions, that lists the NICs."""
    amounts: simulator.Body = {RDMA: 200}
    device = simulator.device()
    device["spec"]["devices"] += NICS
    return [simulator.node(**amounts), device]


def running(*entries: dict[str, Any], asks: int = 100, scheduler: str = "koord-scheduler") -> simulator.Body:
    """Return a pod of Koordinator's that runs with these NICs; without any it has no record."""
    written = {aliases.KOORDINATOR_RECORD: json.dumps({"rdma": entries})} if entries else {}
    return simulator.pod(
        "theirs",
        {RDMA: str(asks)},
        annotations=written,
        phase="Running",
        nodeName="n1",
        schedulerName=scheduler,
    )


def entry(minor: int, amount: int = 100, *buses: str) -> dict[str, Any]:
    """Return what Koordinator writes of a NIC."""
    functions = {"extension": {"vfs": [{"minor": -1, "busID": bus} for bus in buses]}} if buses else {}
    return {"minor": minor, "resources": {RDMA: str(amount)}, **functions}


BY_RECORD: Final = "Pod ml/theirs holds on n1 what its scheduler has written"
ALL_KEPT: Final = "Pod ml/theirs withholds rdma devices of n1"
CASES: Final = {
    "a NIC": (running(entry(0)), 100, ["rdma-1"], BY_RECORD),
    "a NIC, of which another may have a part": (running(entry(0, 60), asks=60), 40, ["rdma-0"], BY_RECORD),
    "a virtual function": (running(entry(1, 1, FUNCTIONS[0]), asks=1), 20, [FUNCTIONS[1]], BY_RECORD),
    "no record": (running(asks=1), 1, [], ALL_KEPT),
    "a record above what it asks for": (running(entry(0), entry(1)), 1, [], ALL_KEPT),
    "a record of a scheduler that is not believed": (
        running(entry(0), scheduler="my-scheduler"),
        1,
        [],
        "Pod ml/theirs withholds rdma devices of n1: its record of devices does not count",
    ),
}


def parts(answers: Sequence[simulator.Body]) -> list[str]:
    """Return which NICs and functions were given."""
    placed = [one["allocation"]["containers"]["main"]["rdma"] for one in answers if one["node"]]
    return [share.get("vf") or share["uuid"] for shares in placed for share in shares]


@pytest.mark.parametrize(("theirs", "asks", "given", "note"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("taken_over", [False, True], ids=["as another's", "taken over"])
def test_what_the_next_pod_gets(
    theirs: simulator.Body, asks: int, given: list[str], note: str, *, taken_over: bool
) -> None:
    """By name where the record counts; where none does, any NIC of the node may be that pod's."""
    words = ["--scheduler-names", "koord-scheduler,my-scheduler,berth-scheduler"] if taken_over else []
    first = simulator.pod("first", {"berth.dev/rdma": str(asks)})

    answer = simulator.run_on([*cluster(), theirs, first], "-o", "json", *words)

    assert parts(answer.objects)[: len(given) or 1] == given
    assert note in answer.notes


def test_who_waits_is_told_whose_nics_may_be_in_use() -> None:
    """With the pod that has to end; and pods without NICs are placed."""
    waiting = [simulator.pod("nic", {"berth.dev/rdma": "1"}), simulator.pod("card", 1)]

    nic, card = simulator.place(*cluster(), running(), *waiting)

    assert card["node"] == "n1"
    assert {refusal["message"] for refusal in nic["refusals"]} == {
        "reserved for a pod without a valid allocation annotation"
    }
    assert nic["nearest"] == "would fit if ml/theirs on n1 terminated"
