"""The page for those who keep the operator running says what is so."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from berth_agent import settings as agent
from berth_crds import flags, http_server, logs, names, schema, schema_limits, vocabulary, wire
from berth_crds import policy as policy_model
from berth_operator import __main__ as operator
from berth_operator import app, metrics, settings
from berth_operator.engine import (
    bind_refusals,
    evictions,
    inventory_metrics,
    loop,
    pod_memory,
    rate_limiter,
    unreadable_pods,
    waiting_reasons,
)
from berth_operator.http_api import auth, pages, server, views
from berth_operator.kube import (
    bind_log,
    elector,
    events,
    evictor,
    feeds,
    gpupod_store,
    kind_statuses,
    kopf_lag,
    leadership,
    misplaced_gpupods,
    pod_status,
    pod_touches,
    write_failures,
)
from berth_operator.scheduling import explain, node_table, policy, queued_pods
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import patterns
from berth_operator.scheduling.nodes import facts
from berth_operator.simulation import __main__ as simulation
from berth_operator.simulation import cli, pod_explanations
from berth_operator.translate import device_size, pod_limits, policies, possible_devices
from support import builders, ledgers

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
PAGE: Final = (MANIFESTS / "operating.md").read_text()
TEXT: Final = " ".join(PAGE.split())
PLAIN: Final = settings.Settings()
USUAL: Final = http_server.USUAL

# What it says of limits and times, by what it speaks of.
SENTENCES: Final = {
    "leadership": [
        f"(`--lease-duration`, {PLAIN.lease_duration:g} s)",
        f"waits {leadership.SETTLE_SECONDS:g} s for their end",
        f"`--retry-period` ({PLAIN.retry_period:g} s)",
        f"no answer for {elector.LATE_SECONDS:g} s no bind is sent",
        f"it changes {pod_touches.FIRST_AT_ONCE} at once at first",
        f"exit code {leadership.EXIT_LOST}",
    ],
    "load on the API server": [
        f"`--binds-at-once` ({PLAIN.binds_at_once})",
        f"`--audit-period` ({PLAIN.audit_period / 60:g} min)",
        f"{app.SECONDARY_RATE['meanwhile']:g} a second while binds are under way",
        f"{app.SECONDARY_RATE['otherwise']:g} otherwise",
        f"{app.SUMMARY_RATE['meanwhile']:g} a second while binds are under way, since each costs",
        f"and {app.SUMMARY_RATE['otherwise']:g} otherwise; whose a uuid is",
        f"beyond {events.MOST_QUEUED} waiting ones",
    ],
    "requests of others": [
        f"a port has {USUAL.connections} of them (the probes have {http_server.PROBES.connections},",
        f"whole within {USUAL.request_seconds:g} s",
        f"read within {USUAL.answer_seconds:g} s",
        f"kubectl apply -f {auth.RIGHTS}",
    ],
    "Kopf": [
        f"did not deliver for {kopf_lag.QUIET_CHECKS * kopf_lag.CHECK_SECONDS:g} s",
        f"that come: {kopf_lag.BEHIND_CHECKS * kopf_lag.CHECK_SECONDS:g} s",
        f"of the {kopf_lag.MOST_NEWEST} newest GpuPods",
    ],
    "exit codes": [
        f"ends with {simulation.EXIT_INTERRUPTED} at Ctrl-C, and with {cli.EXIT_PIPE} when",
    ],
    "pods that say too much together": [
        f"shows `{Reason.TOO_MUCH_TOGETHER}`",
        f"no more than {pod_memory.FREE_BYTES // 1024} KiB of memory is not counted",
    ],
    "edits of long pods": [f"on nodes that take {pod_memory.LONG_BYTES // 1024} KiB of memory or more"],
    "bound pods": [
        f"Where more than {possible_devices.MOST_DIFFERENT} of the amounts of devices differ",
    ],
    "nodes": [
        f"A Node has limits, too: {pod_limits.MAX_NODE_LABELS} labels, {pod_limits.MAX_NODE_TAINTS} taints ",
        f"taints and {pod_limits.MAX_NODE_RESOURCES} resources.",
        f"It has {schema_limits.TOTAL_LINKS} links and {schema_limits.TOTAL_OCCUPANTS} occupants at most,",
        f"more than {device_size.MAX_PROFILES} MIG profiles",
        f"Of all nodes together {node_table.MOST_RESOURCES} different resources count,",
        f"{node_table.MOST_KINDS} MIG profiles and {node_table.MOST_KINDS} types of other devices;",
    ],
    "summaries": [
        f"Up to {kind_statuses.AT_ONCE} Devices at a time, each within {kind_statuses.WRITE_SECONDS:g} s;",
        f"in the end every {write_failures.PAUSE_SECONDS[-1]:g} s",
    ],
    "consequences": [
        f"`{names.AGENT_SILENT_TAINT}:{facts.Effect.NO_SCHEDULE}`",
        f"tried again after {evictor.RETRY_SECONDS:g} s or more",
        f"one Event, `{evictor.REASON}`,",
    ],
    "GpuPods": [
        f"The leader looks every {misplaced_gpupods.PERIOD_SECONDS:g} s at those",
        f"A GpuPod lists {schema_limits.TOTAL_POD_DEVICES} devices at most",
        f"of one node list {unreadable_pods.MOST_SHARES} together",
        f"up to {misplaced_gpupods.MOST_RECENT_READ} in each second",
        f"Of one node {gpupod_store.MOST_OF_A_NODE} GpuPods are followed",
        f"up to {misplaced_gpupods.MOST_CROWDED_READ} of these are judged in each second",
        f"`has more than {gpupod_store.MOST_OF_A_NODE} GpuPods`",
    ],
    "refused pods": [
        f"Where a namespace has more than {bind_refusals.MOST_WITHOUT_TURNS}, it is asked about a thirtieth",
    ],
    "the log": [
        f"In a minute {logs.MOST_OF_ALL} lines are written at most",
        f"{logs.KEPT_FOR_ERRORS} of which are kept for errors",
        f"and {logs.MOST_OF_A_KIND} of a kind",
        f"of most kinds {logs.MOST_ABOUT_ONE} about one object",
        f"{bind_log.BURST_LINES} at once, and one more each {bind_log.SECONDS_A_LINE:g} s",
        f"summed up each {bind_log.PERIOD_SECONDS:g} s",
    ],
    "the loop": [
        f"devices ends after {loop.SEARCH_SECONDS * 1e3:g} ms",
        f"why it waits after {waiting_reasons.EXPLANATION_SECONDS * 1e3:g} ms of CPU time",
        f"pauses of {queued_pods.INITIAL_BACKOFF_SECONDS:g} s as long as each try leaves fewer nodes",
        f"and else of up to {queued_pods.MAX_DEMOTED_BACKOFF_SECONDS:g} s",
        f"explain` looks for {views.SECONDS_IF_FEW * 1e3:g} ms at every card of up to {views.FEW_NODES}",
        f"and for {views.SECONDS * 1e3:g} ms at some",
        f"have taken {pod_explanations.RUN_SECONDS:g} s, {pod_explanations.MIN_SECONDS * 1e3:g} ms are left",
    ],
}

# What it says in words, and the figure that these stand for.
WORDS: Final = [
    ("at most a second old", http_server.CACHED_SECONDS, 1),
    ("as `Retry-After` says, at most a minute", rate_limiter.LONGEST_BACKOFF_SECONDS, 60),
    ("by itself, for ten such pods a second, the oldest first", feeds.READ_AGAIN_SECONDS, 1 / 10),
    (
        "For an hour after that, what is written for the same node is",
        misplaced_gpupods.OFFENDER_SECONDS,
        3600,
    ),
    ("One pod is evicted a second", evictor.EVICTIONS_PER_SECOND, 1),
    ("on more than a fifth of the nodes", evictions.NODES_PER_DRAINED, 5),
    ("a thirtieth", bind_refusals.ALL_ASKED_SECONDS / bind_refusals.RETRY_SECONDS, 30),
    ("three binds were refused", bind_refusals.OFTEN, 3),
    ("an eighth", pod_status.BATCH / pod_status.RESERVED_FOR_REWRITES, 8),
    ("In a minute", logs.WINDOW_SECONDS, 60),
    ("explains each pod for up to a second", pod_explanations.POD_SECONDS, 1),
]


@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES.keys())
def test_its_figures_are_those_of_the_code(sentences: list[str]) -> None:
    """What it says of limits and times is what the programs do."""
    assert [sentence for sentence in sentences if sentence not in TEXT] == []


@pytest.mark.parametrize(("words", "figure", "expected"), WORDS, ids=[words for words, _, _ in WORDS])
def test_its_words_for_figures_are_those_of_the_code(words: str, figure: float, expected: float) -> None:
    """Who changes the figure changes the words, too."""
    assert words in TEXT
    assert figure == expected


def test_its_metrics_exist() -> None:
    """Each metric that it names is among those that the operator shows."""
    measured = metrics.Metrics()
    measured.registry.register(inventory_metrics.InventoryCollector(ledgers.with_nodes(), float))
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


def test_its_exit_codes_are_those_of_the_programs() -> None:
    """Each code that it lists is one that a program ends with, and means that."""
    table = PAGE.split("## Exit codes")[1].split("\n## ")[0]
    meanings = {
        int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)
    }
    words = {
        0: "asked to stop",
        operator.EXIT_FAILED: "failed while it ran",
        cli.EXIT_NO_OUTPUT: "failed while it ran",
        flags.EXIT_UNUSABLE: "cannot be used",
        leadership.EXIT_LOST: "lost the lead",
    }

    assert meanings.keys() == words.keys()
    assert all(word in meanings[code] for code, word in words.items())


def test_its_columns_are_those_of_devices() -> None:
    """It explains columns that `kubectl get devices` has, and reasons that its condition may give."""
    table = PAGE.split("## What a Device shows")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([A-Z-]+)`( \(`-o wide`\))?", table, re.MULTILINE)
    (kind,) = (kind for kind in schema.KINDS if kind.resource.plural == names.DEVICES)
    shown = {column["name"].upper(): "priority" in column for column in kind.columns}

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
    "labels of the pod itself": (pod_limits.MAX_POD_LABELS,),
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
    "terms about other pods (affinity, anti-affinity, spread), their expressions and values": (
        pod_limits.MAX_POD_TERMS,
        pod_limits.MAX_POD_EXPRESSIONS,
        pod_limits.MAX_POD_VALUES,
    ),
    "volumes": (pod_limits.MAX_VOLUMES,),
    "persistent volume claims, and disks that it names itself": (pod_limits.MAX_CLAIMS,),
    "memory for what all waiting pods of a namespace say together, and those of all": (
        pod_memory.NAMESPACE_BYTES // pod_memory.MEBIBYTE,
        pod_memory.TOTAL_BYTES // pod_memory.MEBIBYTE,
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


def test_its_limits_of_devices_are_those_of_the_code() -> None:
    """What it says a Device may say is what is read."""
    device = PAGE.split("A Device has limits", maxsplit=1)[1].split("The API server", maxsplit=1)[0]

    assert set(map(int, re.findall(r"\d+", device))) == {
        schema_limits.TOTAL_UUIDS,
        schema_limits.TOTAL_FUNCTIONS,
        schema_limits.TOTAL_LABELS,
        schema_limits.TOTAL_FUNCTION_LABELS,
        schema_limits.TOTAL_LABEL_TEXT,
    }


def test_its_times_are_those_of_the_loop() -> None:
    """What it says of rounds and of a search that is not finished is what the loop does."""
    assert "so a round ends after about 50 ms" in TEXT
    assert loop.ROUND_SECONDS < 0.05, "with what cannot be interrupted, about 50 ms"
    assert explain.brief([Count(Reason.UNDECIDED, "", 1)], builders.pod_info()).endswith(
        "not fully evaluated (time limit)"
    )


def policy_below(title: str) -> policy.Policy:
    """Read the first policy below a title, which the schema accepts."""
    example = PAGE.split(f"# {title}\n", maxsplit=1)[1].split("```yaml", maxsplit=1)[1]
    made = yaml.safe_load(example.split("```", maxsplit=1)[0])
    policy_model.PlacementPolicy.model_validate(made)
    found = policies.read(msgspec.convert(made, wire.PlacementPolicy))
    assert isinstance(found, policy.Policy)
    return found


def test_its_policy_of_load_is_one() -> None:
    """The example that it gives is a policy, and weighs what it says."""
    found = policy_below("Load of cards")

    assert (found.strategy, found.weights.load) == ("weighted", 100)


def test_its_weights_of_preferences_are_those_of_the_code() -> None:
    """The table has each weight with its default; the example is a policy, and weighs what it says."""
    section = PAGE.split("### What pods prefer\n", maxsplit=1)[1].split("\n## ", maxsplit=1)[0]
    told = {
        name: int(weight) for name, weight in re.findall(r"^\| `(\w+)` \| (\d+) \|", section, re.MULTILINE)
    }
    defaults = policy_model.Preferences().model_dump(by_alias=True)
    found = policy_below("What pods prefer")

    assert told == {name: weight for name, weight in defaults.items() if name in told}
    assert defaults.keys() - told.keys() == {"strategyWithoutDevices", "unstated"}
    assert (found.strategy, found.preferences.node_affinity, found.preferences.unstated) == (
        "binpack",
        100,
        1,
    )
