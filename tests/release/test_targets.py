"""What `make` makes of its targets for versions and for kind: commands that the programs take."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from release import __main__ as release
from release import engines, images, in_kind, layout, sources

PARSERS = {"release.images": images, "release": release, "release.in_kind": in_kind}


@pytest.mark.parametrize(
    ("words", "module", "given"),
    [
        pytest.param(["images"], "release.images", {"base": images.BASE}, id="images"),
        pytest.param(
            ["images", "BASE=slim", "ARGS=--tag 7"], "release.images", {"base": "slim", "tag": "7"}, id="base"
        ),
        pytest.param(
            ["release", "VERSION=1.2.3"], "release", {"version": "1.2.3", "base": images.BASE}, id="release"
        ),
        pytest.param(
            ["release", "VERSION=1.2.3", "BASE=slim", "ARGS=--repository a/b"],
            "release",
            {"version": "1.2.3", "base": "slim", "repository": "a/b"},
            id="release on a base",
        ),
        pytest.param(
            ["kind", "ARGS=--base slim"], "release.in_kind", {"delete": False, "base": "slim"}, id="kind"
        ),
        pytest.param(
            ["kind-delete", "ARGS=--engine podman"],
            "release.in_kind",
            {"delete": True, "engine": "podman"},
            id="kind-delete",
        ),
    ],
)
def test_a_target_runs_a_program_with_words_that_it_takes(
    words: list[str], module: str, given: dict[str, object]
) -> None:
    """Each variable of the target reaches it."""
    # Without what a `make` above this one was told, such as its ARGS.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "ARGS"))}
    made = subprocess.run(
        ["make", "--dry-run", *words], cwd=layout.ROOT, env=env, capture_output=True, text=True, check=True
    )

    (command,) = [line for line in made.stdout.splitlines() if " -m release" in line]
    python, option, named, *arguments = shlex.split(command)
    assert (python, option, named) == (".venv/bin/python", "-m", module)
    found = vars(PARSERS[module]._parser().parse_args(arguments))
    assert found.items() >= given.items()


@pytest.mark.parametrize("module", PARSERS)
def test_each_of_these_programs_starts(module: str) -> None:
    """By `python -m`, and explains itself."""
    words = [sys.executable, "-m", module, "--help"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    made = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)

    assert made.stdout.startswith("usage: make ")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with one commit, in the place of ours."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "file").write_text("as it was\n")
    for words in (["init", "--quiet"], ["add", "file"], ["commit", "--quiet", "--message", "first"]):
        name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *name, *words], cwd=folder, check=True)
    monkeypatch.setattr(layout, "ROOT", folder)
    return folder


def test_a_checkout_without_changes_is_a_commit(checkout: Path) -> None:
    """What is changed, or new, is not."""
    sources.require_commit()

    (checkout / "file").write_text("as it is\n")
    with pytest.raises(sources.NoCommit, match=r"^1 files differ from the last commit, such as file; commit"):
        sources.require_commit()
    (checkout / "new").touch()
    with pytest.raises(sources.NoCommit, match=r"^2 files differ from the last commit"):
        sources.require_commit()


def test_what_is_no_checkout_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as what somebody has unpacked from an archive."""
    monkeypatch.setattr(layout, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", f"{tmp_path.parent}")

    with pytest.raises(sources.NoCommit, match=r"^This folder is no checkout of git's\.$"):
        sources.require_commit()


@pytest.mark.parametrize(
    ("words", "base"),
    [(["--base", "slim"], "slim"), (["--debian"], "root of podman")],
    ids=["base", "debian"],
)
@pytest.mark.usefixtures("checkout")
def test_a_release_is_made_where_it_is_asked_for(
    words: list[str],
    base: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From what was given; at the end its folder is named."""
    made: list[tuple[object, ...]] = []
    podman = engines.Engine("podman", "/bin/podman")
    monkeypatch.setattr(engines, "find", {"podman": podman}.__getitem__)
    monkeypatch.setattr(images, "debian", lambda engine: f"root of {engine.name}")
    monkeypatch.setattr(release, "make", lambda *given: made.append(given))
    folder = tmp_path / "made"

    place = ("--engine", "podman", "--repository", "a/b", "--folder", f"{folder}")
    status = release.main(["1.2.3-rc.1", *words, *place])

    assert status == 0
    assert made == [(podman, base, images.Naming("a/b", "1.2.3-rc.1", "1.2.3-rc.1"), folder)]
    assert capsys.readouterr().out == (
        f"release: 1.2.3-rc.1 is in {folder}; there, `sha256sum --check SHA256SUMS` tells if it is whole\n"
    )


def test_nothing_is_released_of_a_checkout_with_changes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No engine is even looked for."""
    (checkout / "new").touch()
    monkeypatch.setattr(engines, "find", None)

    assert release.main(["1.2.3"]) == release.FAILED
    assert capsys.readouterr().err.startswith("release: 1 files differ from the last commit, such as new")
