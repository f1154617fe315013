"""The logs of real programs in JSON: each line is an object, and says what was done."""

import json
import signal
from typing import Any, Final

from berth_operator.kube import bind_log
from e2e.stage import Stage
from support import kubelet, manifests
from testbed import processes

PODS: Final = tuple(f"p{at}" for at in range(bind_log.BURST_LINES + 3))
JSON: Final = ("--log-format", "json")


def lines(program: processes.Program) -> list[dict[str, Any]]:
    """Read all lines of a program's log."""
    return [json.loads(line) for line in program.log.read_text().splitlines()]


async def test_each_line_is_an_object_and_each_bind_is_told(stage: Stage) -> None:
    """From the first line to the last, with the policy that is in force, and what had no line summed up."""
    operator = await stage.deciding_operator(*JSON)
    await stage.machines(kubelet.FakeNode("logged"))
    agent = await stage.agent(*JSON, logged=f"{len(PODS)}xT4")
    await stage.until_ready("logged")

    await stage.create(*map(manifests.pod, PODS))
    await stage.until_bound(*PODS)
    operator.process.send_signal(signal.SIGTERM)
    await stage.ended(operator)

    told = lines(operator)
    binds = [line for line in told if line["message"].startswith("bound ")]
    assert {(line["namespace"], line["node"]) for line in binds} == {(stage.namespace, "logged")}
    assert len({line["pod"] for line in binds} & set(PODS)) == len(binds)
    assert len({line["cards"][0]["uuid"] for line in binds}) == len(binds)
    assert len(binds) + sum(line.get("pods", 0) for line in told) == len(PODS)
    assert any(line.get("policy") == "default" for line in told)
    assert told[-1]["message"] == "stopped"
    assert lines(agent)
