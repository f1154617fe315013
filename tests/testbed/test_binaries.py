"""Programs are found, turned down or built for the right reasons, once, and a failure says what to do."""

import os
import re
import subprocess
import sys
from concurrent import futures
from pathlib import Path
from typing import Final

import pytest

from testbed import binaries, builder, toolchain

TESTS = Path(__file__).resolve().parents[1]

# What a fake `go install` does. The real one names the file after the package: `server`, for etcd.
BUILDS = 'echo "$@" >>"$BERTH_CACHE/builds"; sleep 0.2; echo program >"$GOBIN/server"'
IS_OFFLINE = 'echo "go: dial tcp: lookup example.org: no such host"; exit 1'
IS_BROKEN = "seq -f 'line %g' 40; exit 1"

VERSION: Final = binaries.version(binaries.PROGRAMS["etcd"])
SAYS: Final = "echo 'etcd Version: {}'"
OURS: Final = SAYS.format(VERSION)
OTHER_PATCH: Final = SAYS.format(f"{VERSION.rpartition('.')[0]}.99")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Begin with an empty cache and an empty directory as the only one on the PATH; lend the latter."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("BERTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    return directory


def test_table_is_complete() -> None:
    """Every program of the table is a pinned tool of our Go module, or names its version itself."""
    tools = re.findall(r"^\t(\S+)$", (binaries.MODULE / "go.mod").read_text(), re.MULTILINE)

    for program in binaries.PROGRAMS.values():
        assert program.package in tools or re.fullmatch(r"\S+@v\d+\.\d+\.\d+", program.package)
        assert re.fullmatch(r"\d+\.\d+\.\d+", binaries.version(program))


@pytest.mark.parametrize(
    ("scripts", "origin"),
    [
        pytest.param({"bin": SAYS.format("1.20.2")}, None, id="another minor release"),
        pytest.param({"bin": "exit 1"}, None, id="it does not know its version"),
        pytest.param({"bin": OTHER_PATCH}, "from PATH", id="another patch serves as well"),
        pytest.param({"bin": OURS, ".": OURS}, "from KUBEBUILDER_ASSETS", id="assets come first"),
    ],
)
@pytest.mark.usefixtures("path")
def test_installed_program_is_used_if_it_is_the_right_one(
    tmp_path: Path, scripts: dict[str, str], origin: str | None
) -> None:
    """A program of the right minor release is used where it is found; an impostor is not."""
    for folder, text in scripts.items():
        _script(tmp_path / folder / "etcd", text)

    found = binaries.locate("etcd")

    assert (found.origin if found else None) == origin


def test_key_covers_what_is_built(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other flags give another place in the cache, so that no stale build is mistaken for a fresh one."""
    before = binaries.cached("etcd")
    changed = binaries.Program("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 40, flags=("-race",))

    monkeypatch.setitem(binaries.PROGRAMS, "etcd", changed)

    assert before != binaries.cached("etcd")
    assert path.parent in before.parents


def test_parallel_runs_build_once(path: Path, tmp_path: Path) -> None:
    """Two runs on a cold cache build a program once and get it whole; later ones need no compiler."""
    _fake_go(path, install=BUILDS)
    with futures.ThreadPoolExecutor() as runs:
        built = list(runs.map(lambda _: binaries.ensure(["etcd"])["etcd"], range(2)))
    (path / "go").unlink()

    sentences: list[str] = []
    built.append(binaries.ensure(["etcd"], tell=sentences.append)["etcd"])

    assert len(set(built)) == 1
    assert built[0].read_text() == "program\n"
    assert len((tmp_path / "cache" / "builds").read_text().splitlines()) == 1
    assert sorted(one.name for one in built[0].parent.iterdir()) == [".lock", "etcd"]
    assert sentences == [f"using etcd from the cache: {built[0].parent}"]


@pytest.mark.parametrize(
    ("go", "obstacle"),
    [
        pytest.param({"install": IS_BROKEN}, builder.Obstacle.BROKEN, id="the compiler gives up"),
        pytest.param({"install": IS_OFFLINE}, builder.Obstacle.NO_NETWORK, id="no network"),
        pytest.param({"install": BUILDS, "version": "go1.19.8"}, builder.Obstacle.NO_GO, id="an old Go"),
    ],
)
def test_failed_build_speaks_plainly(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    go: dict[str, str],
    obstacle: builder.Obstacle,
) -> None:
    """A failed build is one sentence with the compiler's last lines, and leaves nothing half made."""
    _fake_go(path, **go)
    monkeypatch.setattr(toolchain, "WELL_KNOWN", tmp_path / "no-go-here")
    monkeypatch.setattr(toolchain, "fetch", lambda _cache: (None, "no such package"))

    with pytest.raises(builder.Unavailable) as failure:
        binaries.ensure(["etcd"])

    sentence, *lines = str(failure.value).splitlines()
    assert (sentence, failure.value.obstacle) == (f"etcd cannot be built: {obstacle.value}", obstacle)
    assert lines[-1] in {"line 40", "go: dial tcp: lookup example.org: no such host", "no such package"}
    assert [one.name for one in binaries.cached("etcd").parent.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("install", "outcome"),
    [(IS_OFFLINE, "1 skipped"), (IS_BROKEN, "1 error")],
    ids=["no network skips", "a broken build fails"],
)
def test_cluster_tests_without_programs(path: Path, install: str, outcome: str) -> None:
    """Tests that need the cluster are skipped where it cannot be helped, fail otherwise, and say why."""
    _fake_go(path, install=install)
    needy = f"{Path(__file__).with_name('test_testbed.py')}::test_cluster_answers"

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", needy],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in result.stdout
    assert "etcd cannot be built" in result.stdout


def _script(file: Path, text: str) -> None:
    """Write a program that finds the shell's tools whatever the PATH is."""
    file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
    file.chmod(0o755)


def _fake_go(directory: Path, *, install: str, version: str = "go1.26.0") -> None:
    answer = f'if [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit 0; fi'
    _script(directory / "go", f"{answer}\n{install}")
