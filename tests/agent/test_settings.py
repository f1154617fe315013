"""Settings come from flags and the environment, and bad ones are refused in one sentence."""

from pathlib import Path

import pytest

from berth_agent import settings


def parse(*arguments: str, **environment: str) -> settings.Settings:
    """Parse on a host called Host-1."""
    return settings.parse(arguments, environment, host="Host-1")


def test_defaults() -> None:
    """One simulated node, called as its host in lowercase, looked at every 10 s under a Lease of 40 s."""
    chosen = parse("--simulate", "8xT4")

    assert chosen == settings.Settings(nodes=(settings.SimulatedNode("host-1", "8xT4"),))
    assert (chosen.interval, chosen.lease_seconds) == (10.0, 40)


def test_flags_win_over_environment() -> None:
    """A flag wins over its variable, BERTH_NODE over NODE_NAME, and either over the host's name."""
    environment = {"NODE_NAME": "from-kubelet", "BERTH_SIMULATE": "1xT4", "BERTH_INTERVAL": "3"}

    assert parse(**environment).nodes == (settings.SimulatedNode("from-kubelet", "1xT4"),)
    assert parse(**environment, BERTH_NODE="chosen").nodes[0].name == "chosen"
    assert parse("--node", "flag", "--interval", "2", **environment) == settings.Settings(
        nodes=(settings.SimulatedNode("flag", "1xT4"),), interval=2.0
    )


def test_everything_can_stand_in_the_environment() -> None:
    """Each flag has its variable."""
    chosen = parse(
        BERTH_SIMULATED_NODES="a=1xT4,b=2xL4",
        BERTH_FAULTS="faults.json",
        BERTH_KUBECONFIG="config",
        BERTH_CONTEXT="kind",
        BERTH_INTERVAL="0.5",
        BERTH_LEASE_DURATION="7",
        BERTH_SAMPLE_DEADLINE="2",
        BERTH_LOG_LEVEL="DEBUG",
    )

    assert chosen == settings.Settings(
        nodes=(settings.SimulatedNode("a", "1xT4"), settings.SimulatedNode("b", "2xL4")),
        faults=Path("faults.json"),
        kubeconfig=Path("config"),
        context="kind",
        interval=0.5,
        lease_seconds=7,
        deadline=2.0,
        log_level="debug",
    )


def test_one_process_may_speak_for_several_nodes() -> None:
    """--simulated-node may be repeated, and wins over a node that the environment names."""
    chosen = parse("--simulated-node", "a=8xT4", "--simulated-node", "b=1xL4+1xT4", NODE_NAME="me")

    assert chosen.nodes == (settings.SimulatedNode("a", "8xT4"), settings.SimulatedNode("b", "1xL4+1xT4"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param([], "no hardware probe yet: give --simulate", id="no probe"),
        pytest.param(["--simulated-node", "a"], "takes NAME=SHAPE", id="node without shape"),
        pytest.param(
            ["--simulated-node", "a=1xT4", "--node", "b"], "neither --node nor", id="two forms at once"
        ),
        pytest.param(
            ["--simulated-node", "a=1xT4", "--simulated-node", "a=1xL4"], "a is given twice", id="twice"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--node", "A b"], "'A b' is not the name of a node", id="bad name"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--interval", "soon"], "--interval: 'soon' is not", id="no number"
        ),
        pytest.param(["--simulate", "1xT4", "--interval", "nan"], "above zero", id="no time"),
        pytest.param(
            ["--simulate", "1xT4", "--lease-duration", "4.5"], "whole number", id="no whole seconds"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--interval", "40"], "would lapse", id="Lease shorter than interval"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--log-level", "loud"], "'loud' is none of debug", id="log level"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--colour"], "unrecognized arguments: --colour", id="unknown flag"
        ),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(arguments: list[str], sentence: str) -> None:
    """Whatever cannot be used is named, in one line."""
    with pytest.raises(settings.Refused, match=sentence) as refusal:
        parse(*arguments)

    assert "\n" not in str(refusal.value)


def test_environment_is_checked_like_flags() -> None:
    """A bad value is refused wherever it stands."""
    with pytest.raises(settings.Refused, match="--interval: '-1' is not a number of seconds above zero"):
        parse("--simulate", "1xT4", BERTH_INTERVAL="-1")
    with pytest.raises(settings.Refused, match="'loud' is none of"):
        parse("--simulate", "1xT4", BERTH_LOG_LEVEL="loud")
