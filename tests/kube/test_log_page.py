"""What the page for those who keep the operator running says of the log is so."""

import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Final

import pytest

from berth_crds import json_lines, wire
from berth_operator.engine import node_summaries
from berth_operator.kube import bind_log, events, node_log, pod_status, policy_log
from berth_operator.scheduling import decisions
from support import builders, clock, voices

PAGE: Final = (Path(__file__).resolve().parents[2] / "manifests" / "operating.md").read_text()
SECTION: Final = PAGE.split("## What the log says")[1]
NOWHERE: Final = decisions.Placement("n1", ())


def test_its_figures_of_binds_are_those_of_the_log() -> None:
    """It says how many binds have a line, and when the others are summed up."""
    text = " ".join(SECTION.split())

    assert f"{bind_log.BURST_LINES} at once, and one more each {bind_log.SECONDS_A_LINE:g} s" in text
    assert f"summed up each {bind_log.PERIOD_SECONDS:g} s" in text


def test_its_line_of_json_is_that_of_a_bind() -> None:
    """The example has all fields of such a line, in their order."""
    (example,) = re.findall(r"^```json\n(.*)\n```$", SECTION, re.MULTILINE)
    told = json.loads(example)
    pod = dataclasses.replace(builders.candidate(told["pod"]), uid=told["uid"])
    shares = tuple(decisions.Share(*one.values()) for one in told["cards"])
    placement = decisions.Placement(told["node"], (decisions.Grant("main", shares),))
    voice = voices.Voice(told["logger"])

    bind_log.BindLog(clock.Clock(), voice).bound(pod, placement, pod_status.placement_text(pod, placement))

    (record,) = voice.records
    made = json.loads(json_lines.Formatter().format(record))
    assert list(made) == list(told)
    assert {**made, "time": told["time"]} == told


def test_its_lines_of_binds_are_those_of_the_log() -> None:
    """The line of one bind and the line that sums up are quoted as they are."""
    voice, pod = voices.Voice(), builders.candidate("train")
    log = bind_log.BindLog(clock.Clock(), voice)
    shares = (
        decisions.Share("a", 0, 100, 1),
        decisions.Share("b", 1, 100, 1),
        decisions.Share("c", 3, 40, 1),
    )
    placement = decisions.Placement("dgx", (decisions.Grant("main", shares),))

    log.bound(pod, placement, pod_status.placement_text(pod, placement))
    for _ in range(1, bind_log.BURST_LINES):
        log.bound(pod, NOWHERE, "")
    for count, namespace in ((3900, "ml"), (40, "web")):
        for _ in range(count):
            log.bound(dataclasses.replace(pod, namespace=namespace), NOWHERE, "")
    log.sum_up()

    assert f"| `{voice.said[0]}` |" in SECTION
    assert f"| `{voice.said[-1]}` |" in SECTION


def test_its_lines_of_policies_and_nodes_are_those_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """So are those of a policy that changes, a silent agent, and cards that are cordoned."""
    caplog.set_level(logging.INFO)
    policy = policy_log.PolicyLog()
    policy.in_force(wire.PolicySpec())
    nodes = node_log.NodeLog(list[events.Event]().append, "uid-{}".format)
    well = node_summaries.NodeSummary("n2", 1, 0, 1, silent=False)
    nodes.begin([well])
    caplog.clear()

    policy.in_force(wire.PolicySpec(strategy="binpack"))
    nodes.update([dataclasses.replace(well, silent=True, cordoned=("GPU-…",))])
    nodes.update([well])

    changed, silent, cordoned, heard, _ = caplog.messages
    for line in (changed, silent.partition("; ")[0], cordoned):
        assert f"| `{line}` |" in SECTION
    assert f"`{heard.removeprefix('node n2: ')}`" in SECTION
