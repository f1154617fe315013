"""The operator's flags and variables: what they mean, and one sentence for each mistake."""

import re

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
    assert (found.log_level, found.log_format) == ("info", "text")
    assert found.name


def test_a_flag_wins_over_its_variable() -> None:
    """Every flag has a variable behind it, which counts where the flag is not given."""
    by_variable = parse(BERTH_LEASE_DURATION="9", BERTH_LOG_LEVEL="DEBUG", BERTH_LISTEN=":8080")
    in_json = parse("--log-format", "JSON"), parse(BERTH_LOG_FORMAT="json")
    by_flag = parse("--lease-duration", "8", BERTH_LEASE_DURATION="9")

    assert (by_variable.lease_duration, by_variable.log_level) == (9.0, "debug")
    assert by_variable.listen == "0.0.0.0:8080"
    assert by_flag.lease_duration == 8.0
    assert [one.log_format for one in in_json] == ["json", "json"]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (("--listen", "127.0.0.1:80"), "127.0.0.1:80"),
        (("--listen", ":80"), "0.0.0.0:80"),
        (("--listen", "[::1]:80"), "[::1]:80"),
        (("--listen", ""), ""),
    ],
    ids=["address", "everywhere", "IPv6", "nowhere"],
)
def test_where_to_listen(words: tuple[str, ...], address: str) -> None:
    """HOST:PORT, with the host left out for every address, and nothing for nothing; the probes likewise."""
    flag, where = words
    assert parse(flag, where).listen == address
    assert parse(f"{flag}-probes", where).listen_probes == address


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
        pytest.param(["--log-format", "xml"], "'xml' is not one of text, json", id="format"),
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


def test_a_bad_variable_is_told_by_its_name() -> None:
    """A variable goes through the same checks, and is blamed itself, unless a flag stands above it."""
    with pytest.raises(flags.UsageError, match=r"^BERTH_BINDS_AT_ONCE: 'few' is not a whole number"):
        parse(BERTH_BINDS_AT_ONCE="few")
    with pytest.raises(flags.UsageError, match=r"^BERTH_LISTEN: 'bad' is not HOST:PORT"):
        parse(BERTH_LISTEN="bad")

    assert parse("--listen", ":80", BERTH_LISTEN="bad").listen == "0.0.0.0:80"


def test_metrics_are_open_or_behind_a_token() -> None:
    """The metrics are open unless chosen otherwise, and there are only these two choices."""
    assert parse().metrics_auth == "open"
    assert parse(BERTH_METRICS_AUTH="Token").metrics_auth == "token"
    with pytest.raises(flags.UsageError, match="argument --metrics-auth: 'maybe' is not one of open, token"):
        parse("--metrics-auth", "maybe")


def test_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """--help ends well and tells each flag with its variable, whatever the variables say."""
    with pytest.raises(SystemExit) as ended:
        parse("--help", BERTH_LISTEN="bad")

    said = capsys.readouterr().out
    assert ended.value.code == 0
    for flag, shape, *_ in settings.FLAGS:
        assert f"--{flag} {shape}" in said
        assert "BERTH_" + flag.upper().replace("-", "_") in said


def test_help_says_what_a_value_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands for a value in the help is a thing that can be written there, not the end of a flag."""
    with pytest.raises(SystemExit):
        parse("--help")

    said = capsys.readouterr().out
    for shown in (
        "--kubeconfig FILE",
        "--listen HOST:PORT",
        "--metrics-auth open|token",
        "--renew-deadline SECONDS",
        "--binds-at-once NUMBER",
        "--binds-per-second NUMBER",
    ):
        assert f"  {shown}" in said
