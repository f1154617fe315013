"""Versions that tests install, made as releases are: this checkout as it is, and a former one."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from release import __main__ as release
from release import engines, images, sources
from testbed import binaries, builder

TESTED: Final = "0.0.0-tested"
# What decides how a version comes out, with what makes it.
DECISIVE: Final = (
    *("operator", "agent", "crds", "manifests", "tests/release"),
    *("pyproject.toml", ".constraints.txt", "README.md", "LICENSE"),
)
SECONDS_KEPT: Final = 86400.0


def made(version: str = TESTED, commit: str = "") -> Path:
    """Return the folder of a version, made from the checkout or a commit unless it was made before."""
    place = binaries.cache() / "images"
    place.mkdir(parents=True, exist_ok=True)
    with (
        builder.locked(place / ".lock", binaries.tell),
        tempfile.TemporaryDirectory(prefix="berth-sources-") as place_of_copy,
    ):
        copy = Path(place_of_copy, "sources")
        sources.copy(copy, commit)
        folder = place / f"release-{version}-{_digest(copy)}"
        if folder.exists():
            os.utime(folder)
            return folder
        _forget(place, version)
        naming = images.Naming(images.REPOSITORY, version, version)
        with engine() as builds:
            release.make(builds, images.debian(builds), naming, folder, commit=commit)
        os.utime(folder)
    return folder


@contextlib.contextmanager
def engine() -> Iterator[engines.Engine]:
    """Lend an engine that has built nothing yet, and of which nothing is left: its layers are large."""
    with tempfile.TemporaryDirectory(prefix="berth-images-") as store:
        places = ("--root", f"{store}/root", "--runroot", f"{store}/run")
        yield engines.find("buildah")._replace(options=places)


def _forget(place: Path, version: str) -> None:
    """Remove what was made of former states of the checkout, unless somebody may still use it."""
    for former in place.glob(f"release-{version}-*"):
        if time.time() - former.stat().st_mtime > SECONDS_KEPT:
            shutil.rmtree(former)


def _digest(copy: Path) -> str:
    """Return a digest of all that decides how a version comes out."""
    digest = hashlib.sha256()
    for path in _files(copy):
        digest.update(f"{path.relative_to(copy)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files(copy: Path) -> Iterator[Path]:
    for name in DECISIVE:
        for path in sorted((copy / name, *(copy / name).rglob("*"))):
            is_page = name == "manifests" and path.suffix == ".md"
            if path.is_file() and not is_page and not path.name.startswith("test_"):
                yield path
