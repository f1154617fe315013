"""The files of which a version is made: a copy of the checkout, which says which version it is."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from release import layout, versions
from release.failure import CannotBuild

CHART: Final = Path("manifests", "chart")


class NoCommit(CannotBuild):
    """The files are not those of a commit."""


def require_commit() -> None:
    """Raise `NoCommit` if something was changed since the last commit: nobody could find it again."""
    if not _git("rev-parse", "HEAD"):
        raise NoCommit("This folder is no checkout of git's.")
    if changed := _git("status", "--porcelain").splitlines():
        raise NoCommit(
            f"{len(changed)} files differ from the last commit, such as {changed[0][3:]}; commit them first."
        )


def copy(folder: Path, commit: str = "") -> None:
    """Copy what belongs to the checkout into an empty folder: as it is now, or as it was at a commit."""
    folder.mkdir()
    if commit:
        archive = folder.with_suffix(".tar")
        _git("archive", "--output", f"{archive}", commit)
        shutil.unpack_archive(archive, folder, filter="fully_trusted")
        return
    for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        source = layout.ROOT / name
        if name and (source.is_file() or source.is_symlink()):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name, follow_symlinks=False)


def stamp(folder: Path, version: str, repository: str = "") -> None:
    """Write a version, and where its images are, into each file of a copy that says so."""
    of_package = versions.of_package(version)
    _replace(folder / "pyproject.toml", r'version = ".*"', f'version = "{of_package}"')
    stamp_chart(folder / CHART, version)
    if repository:
        _replace(folder / CHART / "values.yaml", "  repository: .*", f"  repository: {repository}")


def stamp_chart(chart: Path, version: str) -> None:
    """Write a version into a chart."""
    for key in ("version", "appVersion"):
        _replace(chart / "Chart.yaml", f"{key}: .*", f"{key}: {version}")


def last_change() -> int:
    """Return the time of the last commit, which all files of a wheel have: two builds give the same."""
    return int(_git("log", "-1", "--format=%ct") or 0)


def has(commit: str) -> bool:
    """Return whether the history that is here reaches back to a commit."""
    return bool(_git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"))


def _replace(file: Path, pattern: str, line: str) -> None:
    """Replace the one line of a file that is written so."""
    text, count = re.subn(f"^{pattern}$", lambda _: line, file.read_text(), flags=re.MULTILINE)
    assert count == 1, f"{file} has {count} lines that read {pattern}"
    file.write_text(text)


def _git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=layout.ROOT, capture_output=True, text=True, check=False)
    return found.stdout
