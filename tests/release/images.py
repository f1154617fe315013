"""`make images`: the images of the operator and the agent, by whatever builds images on this machine."""

import argparse
import hashlib
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from release import engines, layout, versions
from release.failure import CannotBuild
from testbed import binaries

CONTAINERFILE: Final = Path("manifests", "images", "Containerfile")
REPOSITORY: Final = "localhost"  # What the chart takes, too, where nobody says otherwise.
BASE: Final = "docker.io/library/python:3.11-slim"
DEBIAN: Final = "localhost/berth-base:bookworm"
DEBIAN_PACKAGES: Final = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "ca-certificates")
# All files of an image have this time (January 2020), whenever it is built: a layer is another one only if
# its content is, so a node that has base and dependencies of one version does not fetch them for the next.
EPOCH: Final = 1_577_836_800
MEGABYTE: Final = 10**6
FAILED: Final = 1


class Naming(NamedTuple):
    """What images are called: REPOSITORY/berth-operator:TAG, and the version that their labels say."""

    repository: str
    tag: str
    version: str

    def image(self, program: layout.Program) -> str:
        """Return the name of a program's image."""
        return f"{self.repository}/berth-{program.name}:{self.tag}"

    def archive(self, program: layout.Program) -> str:
        """Return the name of the file that such an image is written to."""
        return f"berth-{program.name}-{self.tag}.oci.tar"


def main(words: Sequence[str]) -> int:
    """Build both images, and say how large they are; return the exit status."""
    given = _parser().parse_args(words)
    version = versions.of_checkout(layout.ROOT)
    naming = Naming(given.repository, given.tag or version, version)
    try:
        engine = engines.find(given.engine)
        base = given.base or debian(engine)
        with tempfile.TemporaryDirectory(prefix="berth-wheel-") as wheels:
            build(engine, base, layout.wheel(Path(wheels)), naming, archives=given.archives)
    except CannotBuild as error:
        print(f"images: {error}", file=sys.stderr)
        return FAILED
    return 0


def build(
    engine: engines.Engine,
    base: str,
    wheel: Path,
    naming: Naming,
    *,
    root: Path = layout.ROOT,
    archives: Path | None = None,
) -> None:
    """Build the image of each program from a wheel, and write archives of them into a folder if given one."""
    with tempfile.TemporaryDirectory(prefix="berth-layout-") as place:
        for program in layout.PROGRAMS:
            image, folder = naming.image(program), Path(place, program.name)
            _tell(f"laying out {image}")
            layout.lay_out(program, wheel, folder, constraints=root / ".constraints.txt", epoch=EPOCH)
            size = layout.size(folder) / MEGABYTE
            _tell(f"building {image} with {engine.name}, {size:.0f} MB beyond {base}")
            engine.build(
                image,
                Path(place),
                containerfile=root / CONTAINERFILE,
                target=program.name,
                arguments={"BASE": base, "VERSION": naming.version},
                epoch=EPOCH,
            )
            if archives:
                _archive(engine, image, archives, naming.archive(program))


def _archive(engine: engines.Engine, image: str, archives: Path, name: str) -> None:
    archives.mkdir(parents=True, exist_ok=True)
    archive = archives / name
    engine.save(image, archive)
    _tell(f"{name}: {archive.stat().st_size / MEGABYTE:.0f} MB")


def debian(engine: engines.Engine) -> str:
    """Return the image of a root that is made from Debian's packages, as no registry is asked."""
    digest = hashlib.sha256(" ".join(DEBIAN_PACKAGES).encode()).hexdigest()[:16]
    folder = binaries.cache() / "images" / f"bookworm-{digest}"
    root = folder / "root.tar"
    if not root.exists():
        _bootstrap(root)
    containerfile = folder / "Containerfile"
    containerfile.write_text("FROM scratch\nADD root.tar /\n")
    engine.build(DEBIAN, folder, containerfile=containerfile, arguments={}, epoch=EPOCH)
    return DEBIAN


def _bootstrap(root: Path) -> None:
    """Make the archive of a root from Debian's packages; it appears when it is whole."""
    if shutil.which("mmdebstrap") is None:
        raise engines.NoEngine(
            "There is no mmdebstrap on the PATH to make a base from Debian's packages with."
        )
    root.parent.mkdir(parents=True, exist_ok=True)
    _tell("making a base from Debian's packages, which takes about a minute")
    partial = root.with_name(f"{secrets.token_hex(4)}.tar")
    options = ("--quiet", "--variant=essential", f"--include={','.join(DEBIAN_PACKAGES)}")
    made = subprocess.run(
        ["mmdebstrap", *options, "bookworm", f"{partial}"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise engines.Failed(f"mmdebstrap failed: {made.stderr.strip()}")
    partial.rename(root)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what decides how images are built, and what they are called."""
    parser.add_argument(
        "--base",
        metavar="IMAGE",
        default=BASE,
        help="the image to build on, with Python 3.11 (default: %(default)s)",
    )
    parser.add_argument(
        "--debian",
        dest="base",
        action="store_const",
        const="",
        help="build on a root made of Debian's packages",
    )
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="",
        help=f"what builds them: {', '.join(engines.NAMES)} (default: the first that works)",
    )
    parser.add_argument(
        "--repository",
        default=REPOSITORY,
        help="where the images will be, as the chart's image.repository says it (default: %(default)s)",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make images", description=__doc__)
    add_options(parser)
    parser.add_argument("--tag", default="", help="the tag of both images (default: the version)")
    parser.add_argument(
        "--archives", metavar="FOLDER", type=Path, help="also write them there, as OCI archives"
    )
    return parser


def _tell(sentence: str) -> None:
    print(f"images: {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
