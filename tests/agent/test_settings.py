"""Settings come from flags and the environment, and bad ones are refused in one sentence."""

import re
from pathlib import Path

import pytest

from berth_agent import flag_values, other_holders, settings
from berth_crds import flags, names


def parse(*arguments: str, **environment: str) -> settings.Settings:
    """Parse on a host called Host-1."""
    return settings.parse(arguments, environment, host="Host-1")


A_AND_B = (settings.SimulatedNode("a", "1xT4"), settings.SimulatedNode("b", "2xL4"))


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        pytest.param(
            "--simulate 8xT4",
            {},
            settings.Settings((settings.SimulatedNode("host-1", "8xT4"),), interval=10.0, lease_seconds=40),
            id="defaults: called as its host in lowercase, every 10 s, under a Lease of 40 s",
        ),
        pytest.param(
            "",
            {},
            settings.Settings((settings.HardwareNode("host-1", Path("/sys"), Path("/proc")),)),
            id="the node's own cards",
        ),
        pytest.param(
            "--node n1 --sysfs a",
            {"BERTH_PROCFS": "b", "BERTH_DEVICES": "c"},
            settings.Settings((settings.HardwareNode("n1", Path("a"), Path("b"), Path("c")),)),
            id="other trees",
        ),
        pytest.param(
            "--simulated-node a=1xT4 --simulated-node b=2xL4",
            {"NODE_NAME": "me"},
            settings.Settings(A_AND_B),
            id="several nodes, which win over the one of the environment",
        ),
        pytest.param(
            "",
            {
                "BERTH_SIMULATED_NODES": "a=1xT4,b=2xL4",
                "BERTH_FAULTS": "faults.json",
                "BERTH_KUBECONFIG": "config",
                "BERTH_CONTEXT": "kind",
                "BERTH_INTERVAL": "0.5",
                "BERTH_LEASE_DURATION": "7",
                "BERTH_SAMPLE_DEADLINE": "2",
                "BERTH_LOG_LEVEL": "DEBUG",
                "BERTH_LOG_FORMAT": "JSON",
            },
            settings.Settings(
                nodes=A_AND_B,
                faults=Path("faults.json"),
                kubeconfig=Path("config"),
                context="kind",
                interval=0.5,
                lease_seconds=7,
                deadline=2.0,
                log_level="debug",
                log_format="json",
            ),
            id="all by the environment",
        ),
    ],
)
def test_settings_are_what_was_chosen(
    words: str, environment: dict[str, str], expected: settings.Settings
) -> None:
    """By flags, by the environment, or what is usual."""
    assert parse(*words.split(), **environment) == expected


def test_flags_win_over_environment() -> None:
    """A flag wins over its variable, BERTH_NODE over NODE_NAME, and either over the host's name."""
    environment = {"NODE_NAME": "from-kubelet", "BERTH_SIMULATE": "1xT4", "BERTH_INTERVAL": "3"}

    assert parse(**environment).nodes == (settings.SimulatedNode("from-kubelet", "1xT4"),)
    assert parse(**environment, BERTH_NODE="chosen").nodes[0].name == "chosen"
    assert parse("--node", "flag", "--interval", "2", **environment) == settings.Settings(
        nodes=(settings.SimulatedNode("flag", "1xT4"),), interval=2.0
    )


def test_kubelet_is_asked_where_its_socket_is_given() -> None:
    """Without a socket no kubelet is asked; which resources are GPUs may be chosen, by commas."""
    environment = {"BERTH_POD_RESOURCES": "a.sock", "BERTH_GPU_RESOURCES": "x.io/gpu, x.io/part-*"}

    assert parse("--simulate", "1xT4").pod_resources is None
    given = parse("--simulate", "1xT4", **environment)
    assert given.pod_resources == Path("a.sock")
    assert given.gpu_resources == ("x.io/gpu", "x.io/part-*", names.GPU)  # Which only this agent may serve.
    assert parse("--simulate", "1xT4", "--pod-resources", "b", **environment).pod_resources == Path("b")


def test_what_others_hold_is_told_unless_it_is_chosen_otherwise() -> None:
    """NVIDIA's driver of claims counts, a process of 64 MiB closes its card, and a kubelet is asked."""
    usual = parse("--node", "n1").others
    chosen = parse(
        "--node=n1", "--dra-drivers=gpu.*, x.io", "--least-process-memory=0", "--no-ask-kubelet"
    ).others

    assert usual == other_holders.OtherHolders(True, ("gpu.nvidia.com",), 64 << 20)
    assert chosen == other_holders.OtherHolders(False, ("gpu.*", "x.io"), 0)
    assert parse("--node=n1", "--dra-drivers=").others.drivers == ()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--node=n1", "--least-process-memory=-1"], "number of MiB from 0", id="less memory than none"
        ),
        pytest.param(["--faults", "file"], "--faults breaks simulated cards only", id="faults of real cards"),
        pytest.param(["--simulated-node", "a"], "takes NAME=SHAPE", id="node without shape"),
        pytest.param(
            ["--simulated-node", "a=1xT4", "--node", "b"], "neither --node nor", id="two forms at once"
        ),
        pytest.param(
            ["--simulated-node", "a=1xT4", "--simulated-node", "a=1xL4"], "a is given twice", id="twice"
        ),
        pytest.param(["--simulate", "1xT4", "--no-gpus"], "does not go with simulated ones", id="no cards"),
        pytest.param(
            ["--simulated-node", "a=1xT4", "--no-gpus"],
            "does not go with simulated ones",
            id="no cards, either",
        ),
        pytest.param(
            ["--device-packages", "all,npu-x"],
            "--device-packages: 'all,npu-x' is neither all nor",
            id="packages",
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
            ["--simulate", "1xT4", "--lease-duration", "99999999999"], "1 to 86400", id="more than a day"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--interval", "40"], "would expire", id="Lease shorter than interval"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--log-level", "loud"], "'loud' is none of debug", id="log level"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--log-format", "xml"], "'xml' is none of text, json", id="log format"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--gpu-resources", " ,"], "names no resource", id="no resource is a GPU"
        ),
        pytest.param(
            ["--simulate", "1xT4", "--colour"], "unrecognized arguments: --colour", id="unknown flag"
        ),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(arguments: list[str], sentence: str) -> None:
    """Whatever cannot be used is named, in one line."""
    with pytest.raises(flags.UsageError, match=sentence) as refusal:
        parse(*arguments)

    assert "\n" not in str(refusal.value)


def test_environment_is_checked_like_flags() -> None:
    """A bad value is refused wherever it stands, and what is blamed is where it stands."""
    with pytest.raises(
        flags.UsageError, match=r"^BERTH_INTERVAL: '-1' is not a number of seconds above zero"
    ):
        parse("--simulate", "1xT4", BERTH_INTERVAL="-1")
    with pytest.raises(flags.UsageError, match="'loud' is none of"):
        parse("--simulate", "1xT4", BERTH_LOG_LEVEL="loud")


def test_probes_have_an_address_of_their_own() -> None:
    """Nothing is served unless an address is given, by flag or environment, for each of both."""
    plain, given = parse("--simulate", "1xT4"), parse("--listen-probes", ":81", BERTH_LISTEN="[::1]:80")

    assert (plain.listen, plain.listen_probes) == ("", "")
    assert (given.listen, given.listen_probes) == ("[::1]:80", "0.0.0.0:81")


# ---------------------------------------------------------------- errors that count, and who speaks


def test_lists_of_errors_are_read_from_flags_and_as_the_device_plugin_is_told() -> None:
    """Flags win over our environment, and that over the device plugin's."""
    theirs = {"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "79"}
    (node,) = parse(**theirs).nodes
    assert isinstance(node, settings.HardwareNode)
    assert (node.ignored_xids, node.critical_xids) == (flag_values.xids("all"), flag_values.xids("79"))

    (node,) = parse("--ignored-xids", "31, 43", BERTH_CRITICAL_XIDS="48", **theirs).nodes
    assert isinstance(node, settings.HardwareNode)
    assert (node.ignored_xids, node.critical_xids) == (flag_values.xids("31,43"), flag_values.xids("48"))


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--pod-resources", "--pod-resources is the socket of one kubelet"),
        ("--nri", "--nri is the socket of one node's runtime"),
        ("--cdi", "--cdi is a folder of one node"),
        ("--kubelet-socket", "--kubelet-socket is that of one kubelet"),
    ],
)
def test_what_is_of_one_node_goes_with_no_other(flag: str, sentence: str) -> None:
    """A process may speak for several simulated nodes, and each of these is a place on one machine."""
    with pytest.raises(flags.UsageError, match=f"^{sentence}: it goes with one node alone"):
        parse("--simulated-node=a=1xT4", "--simulated-node=b=1xT4", f"{flag}=place")


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        pytest.param(["--ignored-xids", "7x"], {}, "'7x' is neither the number of an XID", id="a bad number"),
        pytest.param(
            [],
            {"DP_DISABLE_HEALTHCHECKS": "no"},
            "DP_DISABLE_HEALTHCHECKS: 'no' is neither",
            id="theirs, bad",
        ),
        pytest.param(
            [], {"BERTH_SIMULATED_NODES": "a"}, "BERTH_SIMULATED_NODES takes NAME=SHAPE", id="no shape"
        ),
        pytest.param(["--sharing", "4"], {}, "'4' is not STRATEGY:REPLICAS", id="no strategy"),
        pytest.param(["--sharing", "mps:1"], {}, "such as time-slicing:4 or mps:2", id="shared by one"),
        pytest.param([], {"BERTH_SHARING": "mps:x"}, "'mps:x' is not STRATEGY", id="no number"),
        pytest.param(["--listen", "here"], {}, "'here' is not HOST:PORT", id="a bad address"),
        pytest.param(
            ["--listen", "[::1]:99999"], {}, "'[::1]:99999': a port is at most 65535", id="a port too high"
        ),
        pytest.param([], {"BERTH_LISTEN_PROBES": ":x"}, "BERTH_LISTEN_PROBES: ':x' is not", id="bad probes"),
        pytest.param(
            [], {"BERTH_NODE_LABELS": "perhaps"}, "BERTH_NODE_LABELS: 'perhaps'", id="neither yes nor no"
        ),
        pytest.param(["--guard"], {}, "--guard is about what the runtime's plugin does", id="guard alone"),
        pytest.param(["--nri-cdi-kind=a/b"], {}, "--nri-cdi-kind is about", id="a kind without a plugin"),
        pytest.param(["--nri=n", "--nri-cdi-kind=gpu"], {}, "'gpu' is not VENDOR/CLASS", id="no kind of CDI"),
        pytest.param(["--nri=n", "--guard"], {}, "give --pod-resources SOCKET", id="guard without a kubelet"),
        pytest.param(
            ["--share-isolation=all"], {}, "'all' is none of none, mps, hami-core", id="no isolation"
        ),
        pytest.param(["--share-isolation=mps"], {}, "give --nri SOCKET", id="isolation without a plugin"),
        pytest.param(
            ["--kubelet-socket=k", "--pod-resources=p", "--sharing=mps:2"],
            {},
            "Cards are shared by MPS, which needs a daemon: give --mps-root FOLDER",
            id="shared by MPS nowhere",
        ),
        pytest.param(["--hami-core=h"], {}, "give --share-isolation hami-core", id="a library for nothing"),
        pytest.param(["--nri=n", "--share-isolation=mps"], {}, "give --mps-root FOLDER", id="MPS nowhere"),
        pytest.param(
            ["--nri=n", "--share-isolation=hami-core"], {}, "give --hami-core FOLDER", id="HAMi nowhere"
        ),
        pytest.param(["--kubelet-socket=k"], {}, "give --pod-resources SOCKET, too", id="plugin alone"),
        pytest.param(
            ["--kubelet-socket=k", "--pod-resources=p", "--device-list-strategy=cdi-cri"],
            {},
            "names CDI devices: give --cdi FOLDER",
            id="CDI without a spec",
        ),
        pytest.param([], {"DEVICE_LIST_STRATEGY": "envvars"}, "'envvars' is not a list of", id="no strategy"),
        pytest.param(["--device-id-strategy=name"], {}, "'name' is none of uuid, index", id="no kind of id"),
        pytest.param(
            [], {"PASS_DEVICE_SPECS": "maybe"}, "PASS_DEVICE_SPECS: 'maybe'", id="theirs, no switch"
        ),
        pytest.param(
            ["--context", "a", "--context-by-node"], {}, "--context names one context", id="two ways to speak"
        ),
    ],
)
def test_choices_that_cannot_be_used(words: list[str], environment: dict[str, str], sentence: str) -> None:
    """Each is refused in a sentence that names it."""
    with pytest.raises(flags.UsageError, match=re.escape(sentence)):
        parse(*words, **environment)


def test_switches_come_from_flags_and_environment() -> None:
    """A Node is labelled unless that is not wanted; the names of DCGM are had on demand."""
    plain = parse()
    assert (plain.node_labels, plain.dcgm_names, plain.context_by_node, plain.listen) == (
        True,
        False,
        False,
        "",
    )

    assert [parse(**env).fail_on_init_error for env in ({}, {"FAIL_ON_INIT_ERROR": "true"})] == [False, True]
    given = parse("--no-node-labels", BERTH_DCGM_NAMES="yes", BERTH_LISTEN=":9400")
    assert (given.node_labels, given.dcgm_names, given.listen) == (False, True, "0.0.0.0:9400")
    assert parse("--node-labels", BERTH_NODE_LABELS="off").node_labels


@pytest.mark.parametrize("more", [["--simulate", "1xT4"], ["--simulated-node", "a=1xT4"], []])
def test_node_that_was_left_empty_is_not_the_host(more: list[str]) -> None:
    """`--node "$NODE"` without a NODE must not speak for another node."""
    with pytest.raises(flags.UsageError, match=r"--node|is not the name of a node"):
        parse("--node", "", *more)


def test_help_explains_flags_shapes_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """--sysfs and --procfs by what is read there, and examples of shapes and of the file of faults."""
    with pytest.raises(SystemExit, match=r"^0$"):
        parse("--help")

    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "--sysfs FOLDER the node's /sys, which says where each real card is (default: /sys)",
        "--procfs FOLDER the node's /proc, which says to which pod a process on a card belongs",
        *("--simulated-node NAME=SHAPE", "--faults FILE", "8xA100-SXM4-80GB", "NODE_NAME", '"xid": 79'),
        "--pod-resources SOCKET",
    ):
        assert words in said


def test_packages_and_a_node_without_cards_are_chosen() -> None:
    """By flags or by variables; whatever is installed counts where nothing is said."""
    assert parse("--node", "a").device_packages == ("all",)
    assert parse("--node", "a", BERTH_DEVICE_PACKAGES="npu-x, npu-y").device_packages == ("npu-x", "npu-y")
    assert parse("--node", "a", "--device-packages", "none").device_packages == ()
    (node,) = parse("--node", "a", BERTH_GPUS="no").nodes
    assert isinstance(node, settings.HardwareNode) and not node.gpus
