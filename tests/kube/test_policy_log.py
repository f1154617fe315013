"""What the log tells of the policy: each change once, rule by rule, in the words of the policy."""

import logging
from typing import Any

import msgspec
import pytest

from berth_crds import json_lines, logs, text, wire
from berth_operator.kube import auditor, policy_log, policy_sink
from support import ledgers


def spec(**rules: Any) -> wire.PolicySpec:
    """Read the rules of a policy as people write them."""
    return msgspec.convert(rules, wire.PolicySpec)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Lend what is written at level info."""
    caplog.set_level(logging.INFO)
    return caplog


CHANGES: dict[str, tuple[wire.PolicySpec, wire.PolicySpec, str]] = {
    "another strategy": (
        spec(),
        spec(strategy="binpack"),
        "policy default: strategy is binpack (was fragmentation)",
    ),
    "several rules": (
        spec(weights={"core": 2}, agents={"graceSeconds": 60}),
        spec(weights={"core": 3}, sharing={"fractions": False}),
        (
            "policy default: weights.core is 3 (was 2); agents.graceSeconds is 40 (was 60); "
            "sharing.fractions is false (was true)"
        ),
    ),
    "errors": (
        spec(health={"ignoredXids": [13, 31]}),
        spec(health={"criticalXids": [79]}),
        "policy default: health.ignoredXids is not set (was 13, 31); health.criticalXids is 79 (was not set)",
    ),
    "models": (
        spec(models={"a100": "A100-SXM4-80GB", "old": "Tesla T4"}),
        spec(models={"a100": "A100-PCIE-40GB", "new": "L4"}),
        (
            "policy default: models.a100 is A100-PCIE-40GB (was A100-SXM4-80GB); "
            "models.old is not set (was Tesla T4); models.new is L4 (was not set)"
        ),
    ),
}


@pytest.mark.parametrize(("before", "now", "line"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_says_what_is_other_than_before(
    before: wire.PolicySpec, now: wire.PolicySpec, line: str, said: pytest.LogCaptureFixture
) -> None:
    """One line, however often the policy is read again."""
    news = policy_log.PolicyLog()
    news.in_force(before)
    said.clear()

    news.in_force(now)
    news.in_force(now)

    assert said.messages == [line]


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (spec(), "policy default is in force: all rules are as by default"),
        (spec(strategy="spread"), "policy default is in force: strategy is spread (was fragmentation)"),
    ],
    ids=["as by default", "otherwise"],
)
def test_the_first_policy_is_told_as_it_differs_from_the_defaults(
    rules: wire.PolicySpec, line: str, said: pytest.LogCaptureFixture
) -> None:
    """What holds from the start on can be read in the log, too."""
    policy_log.PolicyLog().in_force(rules)

    assert said.messages == [line]


def test_a_policy_that_is_gone_is_told(said: pytest.LogCaptureFixture) -> None:
    """Once, with what holds instead."""
    news = policy_log.PolicyLog()
    news.in_force(spec(strategy="spread"))
    said.clear()

    news.gone()
    news.gone()

    told = "strategy is fragmentation (was spread)"
    assert said.messages == [f"policy default is gone, defaults are in force: {told}"]


def test_what_changed_are_fields(said: pytest.LogCaptureFixture) -> None:
    """In JSON each rule has what it was and what it is."""
    news = policy_log.PolicyLog()
    news.in_force(spec())
    news.in_force(spec(weights={"memory": 0}))

    fields = getattr(said.records[-1], json_lines.FIELDS)
    assert fields == {"policy": "default", "changed": {"weights.memory": {"from": 1, "to": 0}}}


def test_however_much_changes_the_line_stays_short(said: pytest.LogCaptureFixture) -> None:
    """Names of models are anybody's words, and there may be hundreds."""
    news = policy_log.PolicyLog()
    news.in_force(spec())
    news.in_force(spec(models={f"\x1b[2J{at}" + "m" * 1000: "x" * 1000 for at in range(256)}))

    line = said.messages[-1]
    assert line.endswith(f"; {256 - policy_log.MOST_LOGGED} more")
    assert line == text.line(line, most=logs.LONGEST)


def policy(name: str = "default", **rules: Any) -> wire.PlacementPolicy:
    """Make a policy as it is read."""
    return wire.PlacementPolicy(wire.Meta(name=name), spec(**rules))


def test_only_what_is_in_force_is_told(said: pytest.LogCaptureFixture) -> None:
    """Neither another policy nor one that makes no sense changes anything; the one after it is compared."""
    sink = policy_sink.PolicySink(ledgers.with_nodes())
    sink.upserted(policy())
    said.clear()

    sink.upserted(policy("other", strategy="binpack"))
    sink.upserted(policy(strategy="nonsense"))
    sink.upserted(policy(strategy="binpack"))
    sink.deleted(wire.Meta(name="other"))
    sink.deleted(wire.Meta(name="default"))

    assert [one.levelname for one in said.records] == ["WARNING", "INFO", "INFO"]
    assert said.messages[1:] == [
        "policy default: strategy is binpack (was fragmentation)",
        "policy default is gone, defaults are in force: strategy is fragmentation (was binpack)",
    ]


def test_a_ledger_that_is_only_compared_tells_nothing(said: pytest.LogCaptureFixture) -> None:
    """Each audit reads the policy once more."""
    policy_sink.PolicySink(ledgers.with_nodes(), auditor.SILENT).upserted(policy(strategy="binpack"))

    assert said.messages == []
