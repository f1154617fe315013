"""The configuration file of NVIDIA's device plugin: what it says, and what of it cannot be used (N24)."""

from pathlib import Path

import pytest

from agent.test_program import run
from berth_agent import config_file, settings
from berth_agent.card_modes import CardModes
from berth_agent.plugin_choices import PluginChoices
from berth_crds import flags, wire

FULL = """
version: v1
flags:
  migStrategy: single
  failOnInitError: true
  nvidiaDriverRoot: /run/driver
  nvidiaDevRoot: /host
  gdrcopyEnabled: false
  mpsRoot: /run/mps
  plugin:
    containerDriverRoot: /seen
    passDeviceSpecs: true
    deviceListStrategy: [volume-mounts, cdi-cri]
    deviceIDStrategy: index
    cdiAnnotationPrefix: cdi.example.com/
    sharedDevicesAllocationPolicy: packed
sharing:
  timeSlicing:
    failRequestsGreaterThanOne: true
    resources:
    - name: nvidia.com/gpu
      replicas: 10
      devices: [0]
"""
PLUGIN = ("--kubelet-socket=k", "--pod-resources=p", "--cdi=c")


def parse(text: str, *arguments: str, **environment: str) -> settings.Settings:
    """Return the settings of an agent with such a file."""
    return settings.parse(arguments, environment, host="n1", config=config_file.parse(text, "file.yaml"))


def test_each_key_is_read_that_a_flag_is_for() -> None:
    """Under NVIDIA's names, which differ from those of the flags."""
    found = parse(FULL, *PLUGIN)

    assert found.fail_on_init_error
    by_mps = parse(FULL.replace("timeSlicing", "mps"), *PLUGIN).mps
    assert by_mps == settings.MpsSettings(Path("/run/mps"), "nvidia-cuda-mps-control")
    assert found.modes == CardModes(
        wire.Sharing("time-slicing", 10, one_per_container=True), renamed=False, mig_strategy="single"
    )
    assert found.driver == settings.DriverFolders(
        Path("/run/driver"), Path("/seen"), Path("/host/dev"), Path("/host/dev")
    )
    assert found.plugin == settings.PluginSettings(
        Path("k"),
        PluginChoices(
            ("volume-mounts", "cdi-cri"),
            "index",
            pass_device_specs=True,
            allocation_policy="packed",
            one_replica_each=True,
            cdi_annotation_prefix="cdi.example.com/",
        ),
    )


def test_a_flag_wins_over_its_variable_and_that_over_the_file() -> None:
    """And the file over the default."""
    text = "flags: {migStrategy: single, failOnInitError: true}"
    by_variable = {"MIG_STRATEGY": "none", "FAIL_ON_INIT_ERROR": "false"}

    assert parse("version: v1").modes.mig_strategy == "mixed"
    assert parse(text).modes.mig_strategy == "single"
    assert parse(text, **by_variable).modes.mig_strategy == "none"
    assert parse(text, "--mig-strategy=mixed", **by_variable).modes.mig_strategy == "mixed"
    assert [
        parse(text, *words, **variables).fail_on_init_error
        for words, variables in (((), {}), ((), by_variable), (("--fail-on-init-error",), by_variable))
    ] == [True, False, True]


def test_what_the_agent_does_not_have_is_named() -> None:
    """Also what NVIDIA's plugin itself ignores, and what one section takes from the other."""
    assert config_file.parse(FULL, "f").unused == (
        "flags.gdrcopyEnabled",
        "sharing.timeSlicing.resources[0].devices",
    )
    both = """{"flags": {"mpsRoot": "/m"}, "sharing": {
        "timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]},
        "mps": {"other": 1, "resources": [{"name": "gpu", "replicas": 2, "devices": "all", "rename": "x"}]},
        "more": {}}, "resources": {"gpus": [{"pattern": "*", "name": "gpu"}]}}"""
    assert config_file.parse(both, "f").unused == (
        "resources.gpus",
        "sharing.more",
        "sharing.timeSlicing",
        "sharing.mps.other",
        "sharing.mps.resources[0].rename",
    )
    assert parse(both).modes == CardModes(wire.Sharing("mps", 2), renamed=False)
    assert parse(both, *PLUGIN).plugin == settings.PluginSettings(
        Path("k"), PluginChoices(one_replica_each=True)
    )


def test_what_is_empty_counts_as_not_written() -> None:
    """As an empty variable does."""
    text = "flags: {nvidiaDevRoot: '', mpsRoot: ~, migStrategy: null, plugin: {containerDriverRoot: ''}}"
    assert parse(text) == parse("version: v1")


def test_replicas_may_have_a_name_of_their_own() -> None:
    """And several may be given to one container, unless that is to fail."""
    resources = "resources: [{name: nvidia.com/gpu, replicas: 4}]"
    found = parse(f"sharing: {{timeSlicing: {{renameByDefault: true, {resources}}}}}", *PLUGIN)
    assert found.modes == CardModes(wire.Sharing("time-slicing", 4), renamed=True)
    assert found.plugin
    assert not found.plugin.choices.one_replica_each


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: v2", "f: version is 'v2', and only v1 is known."),
        ("[1]", "f: the file is '['1']', and not a section with keys."),
        ("a: [", "f: the file is neither YAML nor JSON: while parsing a flow node"),
        (" ", "f: the file is empty."),
        ("x: &a {b: *a}", "f: the file is neither YAML nor JSON: found unconstructable recursive node"),
        ("[" * 5000, "f is nested too deep."),
        ("flags: {}\nflags: {migStrategy: single}", "f: 'flags' is written twice in one section."),
        ("flags: 5", "f: flags is '5', and not a section with keys."),
        ("flags: {plugin: hello}", "f: flags.plugin is 'hello', and not a section with keys."),
        ("flags: {migStrategy: {a: b}}", "f: flags.migStrategy is "),
        ("flags: {migStrategy: [{a: b}]}", "f: flags.migStrategy is "),
        ("sharing: {mps: {resources: [{name: [gpu], replicas: 2}]}}", "f: sharing.mps.resources[0].name is "),
        ("sharing: {mps: {}}", "f: sharing.mps.resources lists no resource."),
        ("sharing: {mps: 1}", "f: sharing.mps is '1', and not a section with keys."),
        (
            "sharing: {mps: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}",
            "f: sharing.mps.resources[0].name is 'nvidia.com/mig-1g.10gb': only nvidia.com/gpu is shared",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2}, {name: gpu, replicas: 3}]}}",
            "f: sharing.mps.resources names nvidia.com/gpu twice.",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu}]}}",
            "f: sharing.mps.resources[0].replicas is 'None', and not a number.",
        ),
        (
            "sharing: {mps: {renameByDefault: 3, resources: [{name: gpu, replicas: 2}]}}",
            "f: sharing.mps.renameByDefault is '3', and neither true nor false.",
        ),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(text: str, sentence: str) -> None:
    """With the file and the key."""
    with pytest.raises(flags.UsageError) as refusal:
        config_file.parse(text, "f")
    assert f"{refusal.value}".startswith(sentence)
    assert "\n" not in f"{refusal.value}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flags: {migStrategy: 2024-13-45}", "file.yaml: flags.migStrategy: '2024-13-45' is none of"),
        ("flags: {migStrategy: !!int foo}", "file.yaml: flags.migStrategy: 'foo' is none of"),
        ("flags: {migStrategy: some}", "file.yaml: flags.migStrategy: 'some' is none of none, single, mixed"),
        ("flags: {failOnInitError: maybe}", "file.yaml: flags.failOnInitError: 'maybe' is neither true nor"),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 1}]}}",
            "file.yaml: sharing.mps: 'mps:1' is not STRATEGY:REPLICAS",
        ),
    ],
)
def test_values_are_checked_as_those_of_flags_are(text: str, sentence: str) -> None:
    """With the file and the key in place of the flag."""
    with pytest.raises(flags.UsageError) as refusal:
        parse(text)
    assert f"{refusal.value}".startswith(sentence)


def test_the_program_reads_the_file(tmp_path: Path) -> None:
    """From the flag or the variable; what is wrong with it ends the program before it does anything."""
    path = tmp_path / "config.yaml"
    by_variable = {"CONFIG_FILE": "b"}
    found = [settings.parse(words, by_variable, host="n1").config_file for words in ([], ["--config-file=c"])]
    assert found == [Path("b"), Path("c")]

    missing = run("--simulate=1xT4", f"--config-file={path}")
    assert missing.returncode == flags.EXIT_UNUSABLE
    assert "cannot be read" in missing.stderr
    path.write_text("version: v3")
    wrong = run("--simulate=1xT4", CONFIG_FILE=str(path))
    assert wrong.returncode == flags.EXIT_UNUSABLE
    assert "version is 'v3', and only v1 is known" in wrong.stderr
