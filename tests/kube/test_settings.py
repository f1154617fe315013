"""The operator's flags and variables: what they mean, and one sentence for each mistake."""

import re
from pathlib import Path

import pytest

from berth_crds import flags
from berth_operator import settings


def parse(*words: str, **variables: str) -> settings.Settings:
    """Read a command line, in an environment that says nothing else."""
    return settings.parse(words, variables)


def test_defaults_are_those_of_the_contract() -> None:
    """Without any flag the leader's times are 6, 4 and 1 seconds, and nothing is served."""
    found = parse()

    assert (found.lease_duration, found.renew_deadline, found.retry_period) == (6.0, 4.0, 1.0)
    assert (found.listen, found.listen_probes, found.kubeconfig) == ("", "", None)
    assert (found.log_level, found.log_format, found.metrics_auth) == ("info", "text", "open")
    assert found.name


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({"BERTH_LEASE_DURATION": "9"}, "lease_duration", 9.0),
        ({"BERTH_LOG_LEVEL": "DEBUG"}, "log_level", "debug"),
        ({"BERTH_LOG_FORMAT": "json"}, "log_format", "json"),
        ({"BERTH_METRICS_AUTH": "Token"}, "metrics_auth", "token"),
        ({"BERTH_LISTEN": ":8080"}, "listen", "0.0.0.0:8080"),
        ({"BERTH_NAMESPACE": "gpu"}, "namespace", "gpu"),
        ({"BERTH_PROMETHEUS_TOKEN_FILE": "/t"}, "prometheus_token_file", "/t"),
        ({"BERTH_PROMETHEUS_CA_FILE": "/c"}, "prometheus_ca_file", "/c"),
    ],
)
def test_every_flag_has_a_variable_behind_it(variables: dict[str, str], field: str, value: object) -> None:
    """It counts where the flag is not given, in any case of its letters."""
    assert getattr(parse(**variables), field) == value


def test_an_operator_in_a_pod_works_in_the_namespace_of_that(tmp_path: Path) -> None:
    """Outside of pods it has the usual one."""
    file = tmp_path / "namespace"
    assert settings.own_namespace(file) == "berth-system" == parse().namespace
    file.write_text("gpu\n")

    assert settings.own_namespace(file) == "gpu"


def test_a_flag_wins_over_its_variable() -> None:
    """Even over one that could not be used."""
    found = parse("--lease-duration", "8", "--listen", ":80", BERTH_LEASE_DURATION="9", BERTH_LISTEN="bad")

    assert (found.lease_duration, found.listen) == (8.0, "0.0.0.0:80")


@pytest.mark.parametrize(
    ("value", "address"),
    [("127.0.0.1:80", "127.0.0.1:80"), (":80", "0.0.0.0:80"), ("[::1]:80", "[::1]:80"), ("", "")],
    ids=["address", "everywhere", "IPv6", "nowhere"],
)
def test_where_to_listen(value: str, address: str) -> None:
    """HOST:PORT, with the host left out for every address, and nothing for nothing; the probes likewise."""
    found = parse("--listen", value, "--listen-probes", value)

    assert (found.listen, found.listen_probes) == (address, address)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["--frobnicate"], "unrecognized arguments: --frobnicate", id="unknown flag"),
        pytest.param(["--lease", "9"], "unrecognized arguments: --lease", id="half a flag"),
        pytest.param(["extra"], "unrecognized arguments: extra", id="extra word"),
        pytest.param(["--lease-duration"], "expected one argument", id="no value"),
        pytest.param(
            ["--lease-duration", "soon"],
            "'soon' is not a positive number of seconds",
            id="a word for seconds",
        ),
        pytest.param(
            ["--lease-duration", "nan"], "'nan' is not a positive number of seconds", id="no number"
        ),
        pytest.param(["--retry-period", "inf"], "'inf' is not a positive number of seconds", id="for ever"),
        pytest.param(["--retry-period", "0"], "'0' is not a positive number of seconds", id="no time"),
        pytest.param(["--retry-period=-1"], "'-1' is not a positive number of seconds", id="less than none"),
        pytest.param(["--binds-at-once", "0"], "'0' is not a whole number above zero", id="no binds"),
        pytest.param(["--binds-at-once", "1.5"], "'1.5' is not a whole number above zero", id="half a bind"),
        pytest.param(["--binds-at-once", "many"], "'many' is not a whole number above zero", id="many binds"),
        pytest.param(["--binds-per-second", "-1"], "'-1' is not a number a second, nor 0", id="negative"),
        pytest.param(["--binds-per-second", "nan"], "'nan' is not a number a second", id="no rate"),
        pytest.param(["--binds-per-second", "inf"], "'inf' is not a number a second", id="for ever a second"),
        pytest.param(["--log-level", "loud"], "'loud' is not one of debug, info, warning, error", id="level"),
        pytest.param(["--namespace", "a b"], "'a b' is no name of a namespace", id="no namespace"),
        pytest.param(["--log-format", "xml"], "'xml' is not one of text, json", id="format"),
        pytest.param(["--metrics-auth", "maybe"], "'maybe' is not one of open, token", id="metrics"),
        pytest.param(["--listen", "8080"], "'8080' is not HOST:PORT", id="a port alone"),
        pytest.param(["--listen", "a:b"], "'a:b' is not HOST:PORT", id="no port"),
        pytest.param(["--listen", ":65536"], "':65536': a port is at most 65535", id="a port too high"),
        pytest.param(["--listen", ":²"], "':²' is not HOST:PORT", id="a port in superscript"),
        pytest.param(
            ["--renew-deadline", "6"], "the renew deadline shorter than the lease duration", id="deadline"
        ),
        pytest.param(["--lease-duration", "60.1"], "'60.1' is more than 60 seconds", id="a long lease"),
        pytest.param(["--retry-period", "4"], "the retry period must be shorter", id="retry"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str) -> None:
    """A value that cannot be used is refused in one line, which says which and why."""
    with pytest.raises(flags.UsageError, match=re.escape(sentence)) as refusal:
        parse(*words)

    assert str(refusal.value).endswith("; see berth-operator --help")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("BERTH_BINDS_AT_ONCE", "few", "'few' is not a whole number"),
        ("BERTH_LISTEN", "bad", "'bad' is not HOST:PORT"),
    ],
)
def test_a_bad_variable_is_told_by_its_name(variable: str, value: str, fault: str) -> None:
    """A variable goes through the same checks, and is blamed itself."""
    with pytest.raises(flags.UsageError, match=f"^{variable}: {fault}"):
        parse(**{variable: value})


def test_help_names_every_flag_with_its_value_and_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends well whatever the variables say; what stands for a value is what can be written there."""
    with pytest.raises(SystemExit) as ended:
        parse("--help", BERTH_LISTEN="bad")

    text = capsys.readouterr().out
    variables = ["BERTH_" + flag.upper().replace("-", "_") for flag, *_ in settings.FLAGS]
    shapes = [
        "  --kubeconfig FILE",
        "  --listen HOST:PORT",
        "  --metrics-auth open|token",
        "  --renew-deadline SECONDS",
        "  --binds-at-once NUMBER",
        "  --binds-per-second NUMBER",
        *(f"--{flag} {shape}" for flag, shape, *_ in settings.FLAGS),
    ]
    assert ended.value.code == 0
    assert [words for words in (*variables, *shapes) if words not in text] == []


def test_packages_are_chosen_by_name() -> None:
    """Whatever is installed counts where nothing is said."""
    assert parse().device_packages == ("all",)
    assert parse("--device-packages", "none").device_packages == ()
    assert parse(BERTH_DEVICE_PACKAGES="npu-x").device_packages == ("npu-x",)
