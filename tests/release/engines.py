"""What builds images on a machine: docker, podman, or buildah, whichever is there."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from release.failure import CannotBuild

NAMES: Final = ("docker", "podman", "buildah")


class NoEngine(CannotBuild):
    """Nothing builds images here."""


class Failed(CannotBuild):
    """An engine has failed; the text is what it said."""


class Engine(NamedTuple):
    """A program that builds images, where it is, and the options that each of its commands takes."""

    name: str
    path: str
    options: tuple[str, ...] = ()

    def build(
        self,
        image: str,
        folder: Path,
        *,
        containerfile: Path,
        target: str = "",
        arguments: Mapping[str, str],
        epoch: int,
    ) -> None:
        """Build an image from what a folder holds."""
        given = {**arguments, "SOURCE_DATE_EPOCH": f"{epoch}"}
        self._run(
            "build",
            *("--file", f"{containerfile}", "--tag", image),
            *(("--target", target) if target else ()),
            *(word for name, value in given.items() for word in ("--build-arg", f"{name}={value}")),
            # Docker's own builder reads the time from the argument.
            *(() if self.name == "docker" else ("--layers", "--timestamp", f"{epoch}")),
            f"{folder}",
        )

    def save(self, image: str, archive: Path) -> None:
        """Write an image into an OCI archive, for `ctr images import`, and `docker load` from 25 on."""
        archive.unlink(missing_ok=True)
        if self.name == "buildah":
            self._run("push", "--quiet", image, f"oci-archive:{archive}:{image}")
        else:
            form = ("--format", "oci-archive") if self.name == "podman" else ()  # Docker's are of both forms.
            self._run("save", *form, "--output", f"{archive}", image)

    def _run(self, *words: str) -> str:
        made = subprocess.run(
            [self.path, *self.options, *words],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(self.name),
        )
        if made.returncode:
            raise Failed(f"{self.name} {words[0]} failed: {made.stderr.strip() or made.stdout.strip()}")
        return made.stdout


def find(name: str = "", *, among: Sequence[str] = NAMES) -> Engine:
    """Return the engine of this name, or the first that works, or raise `NoEngine`."""
    for one in [name] if name else among:
        if (path := shutil.which(one)) and _works(path):
            return Engine(one, path)
    if name:
        raise NoEngine(f"{name} is not on the PATH, or does not work ({name} info fails).")
    raise NoEngine(f"Nothing here builds images: install one of {', '.join(among)}.")


def _works(path: str) -> bool:
    """Whether an engine is more than its command line: docker's may have no daemon."""
    made = subprocess.run([path, "info"], capture_output=True, check=False, env=_environment(Path(path).name))
    return made.returncode == 0


def _environment(engine: str) -> dict[str, str]:
    """Return the environment for an engine; buildah as root then works inside of containers, too."""
    needed = {
        "buildah": {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"},
        "docker": {
            "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"
        },  # They would stand beside the image in its archive.
    }
    return {**needed.get(engine, {}), **os.environ}
