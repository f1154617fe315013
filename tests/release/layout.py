"""Lays out what the images of both programs copy: wheels, unpacked, without what a program never reads."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from release.failure import CannotBuild

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = "3.11"  # That of the base, whichever lays this out.
CONTRACT: Final = "berth_crds"


class Program(NamedTuple):
    """A program with an image of its own: the extra with its dependencies, and its package."""

    name: str
    package: str


PROGRAMS: Final = (Program("operator", "berth_operator"), Program("agent", "berth_agent"))

# What is in wheels for people who develop against them, and what the installer notes about this machine.
UNREAD_FOLDERS: Final = frozenset({"tests", "include", "bin", "__pycache__"})
UNREAD_SUFFIXES: Final = frozenset({".pyi", ".pyx", ".pxd", ".h", ".c"})
NOTES: Final = frozenset({"direct_url.json", "RECORD", "REQUESTED", "INSTALLER"})


class CannotLayOut(CannotBuild):
    """What is to be copied could not be made."""


def wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder, and return its path."""
    _pip("wheel", "--quiet", "--no-deps", "--wheel-dir", f"{folder}", f"{ROOT}")
    (found,) = folder.glob("berth-*.whl")
    return found


def lay_out(program: Program, berth: Path, folder: Path, *, constraints: Path, epoch: int) -> None:
    """Lay out a program's dependencies, and Berth's own packages apart from them: they change more often."""
    shutil.rmtree(folder, ignore_errors=True)
    dependencies = folder / "dependencies"
    _pip(
        *("install", "--quiet", "--target", f"{dependencies}", "--no-compile", "--only-binary", ":all:"),
        *("--python-version", PYTHON, "--implementation", "cp"),
        *(word for tag in _platforms() for word in ("--platform", tag)),
        *("--constraint", f"{constraints}", f"{berth}[{program.name}]"),
    )
    prune(dependencies)
    strip(dependencies)
    own = folder / "own"
    own.mkdir()
    for path in sorted(dependencies.glob("berth[_-]*")):
        if path.name in {CONTRACT, program.package} or path.suffix == ".dist-info":
            path.rename(own / path.name)
        else:
            shutil.rmtree(path)
    settle((dependencies, own), epoch)


def prune(folder: Path) -> None:
    """Remove what no program reads."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and path.name in UNREAD_FOLDERS:
            shutil.rmtree(path)
        elif path.is_file() and _is_unread(path):
            path.unlink()


def strip(folder: Path) -> None:
    """Remove the symbols for debuggers from extension modules, where binutils are at hand.

    Libraries beside them stay as they are: what patched their names may not survive it.
    """
    modules = sorted(folder.rglob("*.cpython-*.so"))
    if modules and (program := shutil.which("strip")):
        subprocess.run([program, "--strip-unneeded", *modules], check=True)


def _is_unread(path: Path) -> bool:
    return path.suffix in UNREAD_SUFFIXES or (path.parent.suffix == ".dist-info" and path.name in NOTES)


def settle(folders: Iterable[Path], epoch: int) -> None:
    """Set one time and the usual modes of all files, so that two builds give the same layers."""
    for path in (each for folder in folders for each in (folder, *folder.rglob("*"))):
        is_program = path.is_dir() or path.suffix == ".so"
        path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (epoch, epoch))


def size(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _platforms() -> Iterator[str]:
    """Yield the tags of wheels that a base with a glibc of 2.28 or newer takes."""
    machine = platform.machine()
    yield from (f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1))
    yield f"manylinux2014_{machine}"


def _pip(*words: str) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise CannotLayOut(f"pip {words[0]} failed: {made.stderr.strip() or made.stdout.strip()}")
