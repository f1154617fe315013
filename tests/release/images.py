"""`make images`: the images of the operator and the agent, by whatever builds images on this machine."""

import argparse
import hashlib
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from release import engines, layout
from testbed import binaries

CONTAINERFILE: Final = layout.ROOT / "manifests" / "images" / "Containerfile"
BASE: Final = "docker.io/library/python:3.11-slim"
DEBIAN: Final = "localhost/berth-base:bookworm"
DEBIAN_PACKAGES: Final = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "ca-certificates")
BUILD: Final = layout.ROOT / "build" / "images"
TESTED: Final = "tested"
MEGABYTE: Final = 10**6
FAILED: Final = 1


def main(words: Sequence[str]) -> int:
    """Build both images, and say how large they are; return the exit status."""
    given = _parser().parse_args(words)
    try:
        engine = engines.find(given.engine)
        build(engine, given.base or _debian(engine), tag=given.tag, archives=given.archives)
    except (engines.NoEngine, engines.Failed, layout.CannotLayOut) as error:
        print(f"images: {error}", file=sys.stderr)
        return FAILED
    return 0


def build(engine: engines.Engine, base: str, *, tag: str, archives: Path | None) -> None:
    """Build the image of each program on a base, and write archives of them into a folder if there is one."""
    epoch = _last_change()
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="berth-wheel-") as wheels:
        berth = layout.wheel(Path(wheels))
        version = berth.name.split("-")[1]
        for program in layout.PROGRAMS:
            image = f"berth-{program.name}:{tag or version}"
            _tell(f"laying out {image}")
            folder = BUILD / program.name
            layout.lay_out(program, berth, folder, epoch=epoch)
            _tell(
                f"building {image} with {engine.name}, {layout.size(folder) / MEGABYTE:.0f} MB beyond {base}"
            )
            engine.build(
                image,
                BUILD,
                containerfile=CONTAINERFILE,
                target=program.name,
                arguments={"BASE": base, "VERSION": version},
                epoch=epoch,
            )
            if archives:
                archives.mkdir(parents=True, exist_ok=True)
                archive = archives / f"berth-{program.name}.tar"
                engine.save(image, archive)
                _tell(f"{archive}: {archive.stat().st_size / MEGABYTE:.0f} MB")


def _debian(engine: engines.Engine) -> str:
    """Return the image of a root that is made from Debian's packages, as no registry is asked."""
    folder = binaries.cache() / "images" / f"bookworm-{_digest(' '.join(DEBIAN_PACKAGES).encode())}"
    root = folder / "root.tar"
    if not root.exists():
        _bootstrap(root)
    containerfile = folder / "Containerfile"
    containerfile.write_text("FROM scratch\nADD root.tar /\n")
    engine.build(DEBIAN, folder, containerfile=containerfile, arguments={}, epoch=_last_change())
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


def archives_of_this_checkout() -> Path:
    """Return a folder with archives of both images of this checkout, which are built where it has changed."""
    folder = binaries.cache() / "images" / f"archives-{_digest(*_sources())}"
    if folder.exists():
        return folder
    engine = engines.find("buildah")
    with tempfile.TemporaryDirectory(prefix="berth-images-") as store:
        # What is built in between is as large as it is useless afterwards.
        places = ("--root", f"{store}/root", "--runroot", f"{store}/run")
        engine = engine._replace(options=places)
        made = Path(store) / "archives"
        build(engine, _debian(engine), tag=TESTED, archives=made)
        for former in folder.parent.glob("archives-*"):
            shutil.rmtree(former)
        shutil.move(made, folder)
    return folder


def _sources() -> Iterator[bytes]:
    """Yield what decides how the images come out."""
    root = layout.ROOT
    packages = (root / "operator", root / "agent", root / "crds")
    files = [path for folder in packages for path in sorted(folder.rglob("*.py"))]
    for path in (CONTAINERFILE, root / "pyproject.toml", root / ".constraints.txt", *files):
        yield f"{path.relative_to(root)}".encode()
        yield path.read_bytes()


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _last_change() -> int:
    """Return the time of the last commit, which is that of all files of the images."""
    found = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=layout.ROOT, capture_output=True, text=True, check=False
    )
    return int(found.stdout or 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make images", description=__doc__)
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
    parser.add_argument("--tag", default="", help="the tag of both images (default: the version)")
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="",
        help=f"what builds them: {', '.join(engines.NAMES)} (default: the first that works)",
    )
    parser.add_argument(
        "--archives", metavar="FOLDER", type=Path, help="also write them there, as `docker load` reads them"
    )
    return parser


def _tell(sentence: str) -> None:
    print(f"images: {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
