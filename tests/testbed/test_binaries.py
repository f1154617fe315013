"""Programs are found, turned down or built for the right reasons, once, and a failure says what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import pytest

from testbed import binaries, builder, progress, toolchain, waiting

TESTS = Path(__file__).resolve().parents[1]

# What a fake `go install` does. The real one names the file after the package: `server`, for etcd.
BUILDS = 'echo "$@" >>"$BERTH_CACHE/builds"; sleep 0.2; echo program >"$GOBIN/server"'
IS_OFFLINE = 'echo "go: dial tcp: lookup example.org: no such host"; exit 1'
IS_BROKEN = "seq -f 'line %g' 40; exit 1"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Begin with an empty cache and an empty directory as the only one on the PATH; lend the latter."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("BERTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return directory


def test_table_is_complete() -> None:
    """Every program of the table is a pinned tool of our Go module, or names its version itself."""
    tools = re.findall(r"^\t(\S+)$", (binaries.MODULE / "go.mod").read_text(), re.MULTILINE)

    for program in binaries.PROGRAMS.values():
        assert program.package in tools or re.fullmatch(r"\S+@v\d+\.\d+\.\d+", program.package)
        assert re.fullmatch(r"\d+\.\d+\.\d+", binaries.version(program))


def test_stale_program_is_turned_down(path: Path) -> None:
    """A program of another minor release is not used, however early it is on the PATH."""
    _script(path / "kubectl", 'echo "Client Version: v1.20.2"')

    assert binaries.locate("kubectl") is None


def test_impostor_is_turned_down(path: Path) -> None:
    """A program that has the name but does not know its version is not used."""
    _script(path / "etcd", "exit 1")

    assert binaries.locate("etcd") is None


def test_installed_program_is_used(path: Path) -> None:
    """Another patch of the right release serves as well, and nothing is built."""
    release = binaries.version(binaries.PROGRAMS["kubectl"]).rpartition(".")[0]
    _script(path / "kubectl", f'echo "Client Version: v{release}.99"')

    assert binaries.locate("kubectl") == binaries.Found(path / "kubectl", "from PATH")


def test_assets_come_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBEBUILDER_ASSETS is preferred to the PATH."""
    version = binaries.version(binaries.PROGRAMS["etcd"])
    assets = tmp_path / "assets"
    assets.mkdir()
    for directory in (path, assets):
        _script(directory / "etcd", f'echo "etcd Version: {version}"')

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    assert binaries.locate("etcd") == binaries.Found(assets / "etcd", "from KUBEBUILDER_ASSETS")


def test_key_covers_what_is_built(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other flags give another place in the cache, so that no stale build is mistaken for a fresh one."""
    before = binaries.cached("etcd")
    changed = binaries.Program("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 40, flags=("-race",))

    monkeypatch.setitem(binaries.PROGRAMS, "etcd", changed)

    assert before != binaries.cached("etcd")
    assert path.parent in before.parents


def test_parallel_runs_build_once(path: Path, tmp_path: Path) -> None:
    """Two runs on a cold cache build a program once, and both get it whole."""
    _fake_go(path, install=BUILDS)

    with futures.ThreadPoolExecutor() as runs:
        built = list(runs.map(lambda _: binaries.ensure(["etcd"], tell=_nobody)["etcd"], range(2)))

    assert built[0] == built[1]
    assert built[0].read_text() == "program\n"
    assert len((tmp_path / "cache" / "builds").read_text().splitlines()) == 1
    assert sorted(one.name for one in built[0].parent.iterdir()) == [".lock", "etcd"]


def test_built_program_needs_no_go(path: Path) -> None:
    """What has been built once is used without a compiler, and it is told where it lies."""
    _fake_go(path, install=BUILDS)
    built = binaries.ensure(["etcd"], tell=_nobody)["etcd"]
    (path / "go").unlink()

    told: list[str] = []
    again = binaries.ensure(["etcd"], tell=told.append)["etcd"]

    assert again == built
    assert told == [f"using etcd from the cache: {built.parent}"]


def test_failed_build_speaks_plainly(path: Path) -> None:
    """A failed build is one sentence with the compiler's last lines, and leaves nothing half made."""
    _fake_go(path, install=IS_BROKEN)

    with pytest.raises(builder.Unavailable) as failure:
        binaries.ensure(["etcd"], tell=_nobody)

    sentence, *lines = str(failure.value).splitlines()
    assert sentence == "etcd cannot be built: the compiler gave up; its last lines say why."
    assert lines[-1] == "line 40"
    assert [one.name for one in binaries.cached("etcd").parent.iterdir()] == [".lock"]


def test_no_network_is_told_apart(path: Path) -> None:
    """Modules that cannot be fetched are the network's fault, and the sentence says so."""
    _fake_go(path, install=IS_OFFLINE)

    with pytest.raises(builder.Unavailable, match="check the network") as failure:
        binaries.ensure(["etcd"], tell=_nobody)

    assert failure.value.obstacle is builder.Obstacle.NO_NETWORK


def test_old_go_does_not_count(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Go that is too old is passed over, and without another one the sentence says what to install."""
    _fake_go(path, install=BUILDS, version="go1.19.8")
    monkeypatch.setattr(toolchain, "WELL_KNOWN", tmp_path / "no-go-here")
    monkeypatch.setattr(toolchain, "fetch", lambda _cache: (None, "no such package"))

    with pytest.raises(builder.Unavailable, match="install Go") as failure:
        binaries.ensure(["etcd"], tell=_nobody)

    assert failure.value.obstacle is builder.Obstacle.NO_GO


@pytest.mark.usefixtures("path")
def test_tool_reports_in_one_sentence(path: Path) -> None:
    """The developer's tool shows a failed build without a traceback, and fails."""
    _fake_go(path, install=IS_OFFLINE)

    result = _python("-m", "testbed", "build")

    assert result.returncode == 1
    assert "cannot be built" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("install", "outcome"),
    [(IS_OFFLINE, "1 skipped"), (IS_BROKEN, "1 error")],
    ids=["no network skips", "a broken build fails"],
)
def test_cluster_tests_without_programs(path: Path, install: str, outcome: str) -> None:
    """Tests that need the cluster are skipped where it cannot be helped, fail otherwise, and say why."""
    _fake_go(path, install=install)
    needy = Path(__file__).with_name("test_testbed.py")

    result = _python("-m", "pytest", "-rs", "-p", "no:cacheprovider", f"{needy}::test_cluster_answers")

    assert outcome in result.stdout
    assert "etcd cannot be built" in result.stdout


def test_waiting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """While something takes long, its elapsed seconds are told again and again."""
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    told: list[str] = []

    with progress.ticking("building etcd", told.append):
        waiting.until(lambda: len(told) > 1, what="two ticks")

    assert all(re.fullmatch(r"building etcd: \d+ s so far", sentence) for sentence in told)


def _script(file: Path, text: str) -> None:
    """Write a program that finds the shell's tools whatever the PATH is."""
    file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
    file.chmod(0o755)


def _fake_go(directory: Path, *, install: str, version: str = "go1.26.0") -> None:
    answer = f'if [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit 0; fi'
    _script(directory / "go", f"{answer}\n{install}")


def _python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )


def _nobody(_sentence: str) -> None:
    """Listen to the progress and do nothing."""
