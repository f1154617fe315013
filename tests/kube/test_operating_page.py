"""The page for those who keep the operator running says what is so."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from berth_agent import settings as agent
from berth_crds import flags, http_server, logs, names, schema, schema_limits, vocabulary
from berth_operator import __main__ as operator
from berth_operator import app, metrics, settings
from berth_operator.engine import (
    bind_refusals,
    inventory_metrics,
    loop,
    rate_limiter,
    unreadable_pods,
    waiting_pod_memory,
    waiting_reasons,
)
from berth_operator.http_api import auth, pages, server, views
from berth_operator.kube import (
    events,
    feeds,
    kind_statuses,
    kopf_lag,
    leadership,
    misplaced_gpupods,
    pod_status,
    write_failures,
)
from berth_operator.scheduling import explain, node_table, queued_pods
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import patterns
from berth_operator.simulation import __main__ as simulation
from berth_operator.simulation import pod_explanations, program
from berth_operator.translate import device_size, pod_limits
from support import builders, ledgers

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
PAGE: Final = (MANIFESTS / "operating.md").read_text()


def test_its_metrics_exist() -> None:
    """Each metric that it names is among those that the operator shows."""
    measured = metrics.Metrics()
    measured.collect_inventory(lambda: inventory_metrics.count_stock(ledgers.with_nodes(), 0.0))
    shown = set(
        re.findall(r"^(berth_\w+?)(?:_bucket|_count|_sum)?(?:\{| )", measured.text().decode(), re.MULTILINE)
    )
    named = set(re.findall(r"`(berth_\w+)`", PAGE))

    assert named
    assert named - shown == set()


def test_its_flags_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each flag that it names is one of the operator's, or of the agent's."""
    with pytest.raises(SystemExit):
        settings.parse(["--help"], {})
    with pytest.raises(SystemExit):
        agent.parse(["--help"], {}, host="here")
    text = capsys.readouterr().out
    named = set(re.findall(r"`(--[a-z-]+)`", PAGE))

    assert named
    assert [flag for flag in named if f"  {flag} " not in text] == []


def test_its_figures_are_those_of_the_code() -> None:
    """What it says of limits and times is what the operator does."""
    plain = settings.Settings()

    assert f"(`--lease-duration`, {plain.lease_duration:g} s)" in PAGE
    assert f"waited out ({app.SETTLE_SECONDS:g} s)" in PAGE
    assert f"`--binds-at-once` ({plain.binds_at_once})" in PAGE
    assert f"`--retry-period` ({plain.retry_period:g} s)" in PAGE
    assert f"`--audit-period` ({plain.audit_period / 60:g} min)" in PAGE
    assert f"{app.SECONDARY_RATE['meanwhile']:g} a second while binds are under way" in PAGE
    assert f"{app.SECONDARY_RATE['otherwise']:g} otherwise" in PAGE
    assert f"beyond {events.MOST_QUEUED} waiting ones" in PAGE
    assert f"exit code {leadership.EXIT_LOST}" in PAGE
    usual, probes = http_server.USUAL, http_server.PROBES
    assert f"a port\nhas {usual.connections} of them (the probes have {probes.connections}," in PAGE
    assert f"whole within {usual.request_seconds:g} s" in PAGE
    assert f"read within {usual.answer_seconds:g} s" in PAGE
    assert http_server.CACHED_SECONDS == 1, "at most a second old"
    assert f"kubectl apply -f {auth.RIGHTS}" in PAGE
    assert rate_limiter.LONGEST_BACKOFF_SECONDS == 60, "at most a minute"
    assert f"The leader looks every {misplaced_gpupods.PERIOD_SECONDS:g} s" in PAGE
    quiet, behind = (
        kopf_lag.QUIET_CHECKS * kopf_lag.CHECK_SECONDS,
        kopf_lag.BEHIND_CHECKS * kopf_lag.CHECK_SECONDS,
    )
    assert f"did not deliver for {quiet:g} s" in PAGE
    assert f"that come: {behind:g} s" in PAGE


def test_its_exit_codes_are_those_of_the_programs() -> None:
    """Each code that it lists is one that a program ends with, and means that."""
    table = PAGE.split("## Exit codes")[1].split("\n## ")[0]
    meanings = {
        int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)
    }
    words = {
        0: "asked to stop",
        operator.EXIT_FAILED: "failed while it ran",
        program.EXIT_NO_OUTPUT: "failed while it ran",
        flags.EXIT_UNUSABLE: "cannot be used",
        leadership.EXIT_LOST: "lost the lead",
    }

    assert meanings.keys() == words.keys()
    assert all(word in meanings[code] for code, word in words.items())
    assert f"ends with {simulation.EXIT_INTERRUPTED} at Ctrl-C, and with\n{program.EXIT_PIPE} when" in PAGE


def test_its_columns_are_those_of_devices() -> None:
    """It explains columns that `kubectl get devices` has, and reasons that its condition may give."""
    table = PAGE.split("## What a Device shows")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([A-Z-]+)`( \(`-o wide`\))?", table, re.MULTILINE)
    (kind,) = (kind for kind in schema.KINDS if kind.plural == names.DEVICES)
    shown = {column.name.upper(): column.wide for column in kind.columns}

    assert len(named) == table.count("\n| `")
    assert {name: bool(wide) for name, wide in named}.items() <= shown.items()
    for reason in (vocabulary.ReadyReason.AGENT_SILENT, vocabulary.ReadyReason.SOURCE_FAILED):
        assert f"`{reason}`" in table


def test_its_roles_have_the_pages_that_there_are() -> None:
    """The roles for readers that it names are shipped, and have every page that takes a token."""
    shipped = yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
    rights = {
        role["metadata"]["name"]: set(role["rules"][0].get("nonResourceURLs", ()))
        for role in shipped
        if role["kind"] == "ClusterRole"
    }

    assert set(re.findall(r"--clusterrole=(\S+)", PAGE)) == {"berth-debug", "berth-metrics"}
    assert rights["berth-debug"] == pages.ABOUT.keys()
    assert rights["berth-metrics"] == {server.METRICS}


LIMITS: Final = {
    "bytes of the whole pod": (pod_limits.MAX_BYTES,),
    "models in one list": (pod_limits.MAX_MODELS,),
    "uuids in one list": (pod_limits.MAX_UUIDS,),
    "labels in one list": (pod_limits.MAX_LABELS,),
    "an annotation that is no list, and one that is": (pod_limits.MAX_TEXT, pod_limits.MAX_LIST_TEXT),
    "a pattern for models": (patterns.LONGEST,),
    "asks for devices, each kind in each container counted": (pod_limits.MAX_ASKS,),
    "replicas and MIG instances together": (pod_limits.MAX_PIECES,),
    "containers": (pod_limits.MAX_CONTAINERS,),
    "requests and limits in all containers, and names of resources among them": (
        pod_limits.MAX_AMOUNTS,
        pod_limits.MAX_RESOURCES,
    ),
    "labels in the node selector, and tolerations": (pod_limits.MAX_SELECTOR, pod_limits.MAX_TOLERATIONS),
    "memory for what all waiting pods of a namespace say together, and those of all": (
        waiting_pod_memory.NAMESPACE_BYTES // waiting_pod_memory.MEBIBYTE,
        waiting_pod_memory.TOTAL_BYTES // waiting_pod_memory.MEBIBYTE,
    ),
    "terms, expressions and values of the node affinity": (
        pod_limits.MAX_TERMS,
        pod_limits.MAX_EXPRESSIONS,
        pod_limits.MAX_VALUES,
    ),
}


@pytest.mark.parametrize(("what", "most"), LIMITS.items(), ids=LIMITS.keys())
def test_its_limits_are_those_of_the_code(what: str, most: tuple[int, ...]) -> None:
    """What it says a pod may say is what is read."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {what} |")]

    assert tuple(map(int, re.findall(r"(?<!RE)\b\d+\b", line.split(" | ")[1]))) == most


def test_what_it_says_of_pods_that_say_too_much_together_is_so() -> None:
    """What is free, and how soon they are read again, is what the operator does."""
    text = " ".join(PAGE.split())

    assert f"shows `{Reason.TOO_MUCH_TOGETHER}`" in text
    assert 1 / feeds.READ_REJECTED_SECONDS == 10
    assert "by itself, for ten such pods a second, the oldest first and namespaces in turns" in text
    assert f"no more than {waiting_pod_memory.FREE_BYTES // 1024} KiB of memory is not counted" in text


def test_its_limits_of_bound_pods_are_those_of_the_code() -> None:
    """What it says of a bound pod that says too much is what is added up."""
    assert (
        f"more than\n{pod_limits.MAX_DEVICE_AMOUNTS} amounts of devices that are not zero, all cards" in PAGE
    )


def test_its_limits_of_nodes_are_those_of_the_code() -> None:
    """What it says a Node or a Device may say is what is read."""
    labels, taints, resources = (
        pod_limits.MAX_NODE_LABELS,
        pod_limits.MAX_NODE_TAINTS,
        pod_limits.MAX_NODE_RESOURCES,
    )

    assert f"A Node has limits, too: {labels} labels, {taints} taints and {resources} resources." in PAGE
    device = PAGE.split("A Device has limits", maxsplit=1)[1].split("The API server", maxsplit=1)[0]
    assert set(map(int, re.findall(r"\d+", device))) == {
        schema_limits.TOTAL_UUIDS,
        schema_limits.TOTAL_FUNCTIONS,
        schema_limits.TOTAL_LABELS,
        schema_limits.TOTAL_FUNCTION_LABELS,
        schema_limits.TOTAL_LABEL_TEXT,
    }
    assert (
        f"It has {schema_limits.TOTAL_LINKS} links "
        f"and {schema_limits.TOTAL_OCCUPANTS} occupants at most, too." in PAGE
    )
    assert f"more than {device_size.MAX_PROFILES} MIG profiles" in " ".join(PAGE.split())
    kinds = f"{node_table.MOST_KINDS} MIG profiles and {node_table.MOST_KINDS} types of other devices"
    assert (
        f"Of all nodes together {node_table.MOST_RESOURCES} different resources count, and {kinds};" in PAGE
    )


def test_what_it_says_of_summaries_is_so() -> None:
    """How many Devices are written at a time, by when, and how often one that fails."""
    text = " ".join(PAGE.split())

    assert (
        f"Up to {kind_statuses.AT_ONCE} Devices at a time, each within {kind_statuses.WRITE_SECONDS:g} s;"
        in text
    )
    assert f"at last once in {write_failures.PAUSE_SECONDS[-1]:g} s" in text


def test_its_limits_of_gpupods_are_those_of_the_code() -> None:
    """What it says of GpuPods is how many devices count, and how fast misplaced ones are judged."""
    text = " ".join(PAGE.split())

    assert f"A GpuPod lists {schema_limits.TOTAL_POD_DEVICES} devices at most" in text
    assert f"of one node list {unreadable_pods.MOST_SHARES} together" in text
    assert "For an hour after that, what is written for the same node is judged as it comes, up to" in text
    assert f"up to {misplaced_gpupods.MOST_RECENT_READ} in each second" in text
    assert misplaced_gpupods.OFFENDER_SECONDS == 3600, "an hour"
    assert f"Of one node {misplaced_gpupods.MOST_OF_A_NODE} GpuPods are followed" in text
    assert f"up to {misplaced_gpupods.MOST_CROWDED_READ} of these are judged in each second" in text
    assert f"`has more than {misplaced_gpupods.MOST_OF_A_NODE} GpuPods`" in text


def test_its_figures_of_refused_pods_are_those_of_the_code() -> None:
    """What it says of a crowd of refused pods is what is asked."""
    text = " ".join(PAGE.split())

    assert (
        f"Where a namespace has more than {bind_refusals.MOST_WITHOUT_TURNS}, it is asked about a thirtieth"
        in text
    )
    assert bind_refusals.ALL_ASKED_SECONDS / bind_refusals.RETRY_SECONDS == 30, "a thirtieth"
    assert bind_refusals.OFTEN == 3, "three binds"


def test_its_share_of_sentences_is_that_of_the_code() -> None:
    """What it says is kept for pods that show a sentence already is kept."""
    assert pod_status.RESERVED_FOR_REWRITES * 8 == pod_status.BATCH, "an eighth"


def test_its_limits_of_the_log_are_those_of_the_code() -> None:
    """What it says of lines that are left out is what is written."""
    assert logs.WINDOW_SECONDS == 60, "a minute"
    text = " ".join(PAGE.split())
    assert f"In a minute {logs.MOST_OF_ALL} lines are written at most" in text
    assert f"{logs.KEPT_FOR_ERRORS} of which are kept for errors" in text
    assert f"and {logs.MOST_OF_A_KIND} of a kind" in text
    assert f"of most kinds {logs.MOST_ABOUT_ONE} about one object" in text


def test_its_times_are_those_of_the_loop() -> None:
    """What it says of rounds, searches and pauses is what the loop does."""
    assert f"devices ends after {loop.SEARCH_SECONDS * 1e3:g} ms" in PAGE
    assert f"why it waits after {waiting_reasons.DIAGNOSIS_SECONDS * 1e3:g} ms" in PAGE
    assert f"pauses of up to {queued_pods.LONGEST_DEMOTED_SECONDS:g} s" in PAGE
    assert (
        f"explain` looks for {views.SECONDS_IF_FEW * 1e3:g} ms at every card of up to {views.FEW_NODES}"
        in PAGE
    )
    assert f"and for {views.SECONDS * 1e3:g} ms at some" in PAGE
    assert pod_explanations.POD_SECONDS == 1, "up to a second"
    assert (
        f"have taken {pod_explanations.RUN_SECONDS:g} s,\n{pod_explanations.MIN_SECONDS * 1e3:g} ms are left"
        in PAGE
    )
    assert loop.ROUND_SECONDS < 0.05, "with what cannot be interrupted, about 50 ms"
    assert explain.brief([Count(Reason.UNDECIDED, "", 1)], builders.candidate()).endswith(
        "not fully evaluated: search budget"
    )
