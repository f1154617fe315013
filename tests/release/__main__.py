"""`make release VERSION=…`: all files of a version of Berth, with a list of their checksums."""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release import bill, engines, images, layout, rendering, sources, versions
from release.failure import CannotBuild

FOLDER: Final = layout.ROOT / "build" / "release"
CHECKSUMS: Final = "SHA256SUMS"
FAILED: Final = 1


class CannotPackage(CannotBuild):
    """The files of a version could not be made, or not be put where they should be."""


def main(words: Sequence[str]) -> int:
    """Make a version from the last commit; return the exit status."""
    given = _parser().parse_args(words)
    try:
        versions.of_package(given.version)
        sources.require_commit()
        engine = engines.find(given.engine)
        naming = images.Naming(given.repository, given.version, given.version)
        make(engine, given.base or images.debian(engine), naming, given.folder)
    except CannotBuild as error:
        print(f"release: {error}", file=sys.stderr)
        return FAILED
    _tell(
        f"{given.version} is in {given.folder}; there, `sha256sum --check {CHECKSUMS}` tells if it is whole"
    )
    return 0


def make(engine: engines.Engine, base: str, naming: images.Naming, folder: Path, *, commit: str = "") -> None:
    """Make all files of a version in a folder, which appears, or replaces a former one, when it is whole."""
    if folder.exists() and any(folder.iterdir()) and not (folder / CHECKSUMS).exists():
        raise CannotPackage(f"{folder} has files that are not of a release; name an empty folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        copy, made = Path(place, "sources"), Path(place, "made")
        sources.copy(copy, commit)
        sources.stamp(copy, naming.version, naming.repository)
        _tell("building the wheel and the source distribution")
        wheel = package(copy, made)
        images.build(engine, base, wheel, naming, root=copy, archives=made)
        _tell("writing the bills of materials, the chart and the manifests")
        for program in layout.PROGRAMS:
            parts = bill.parts(made / naming.archive(program))
            text = bill.written(naming.image(program), naming.version, parts)
            (made / f"berth-{program.name}-{naming.version}.cdx.json").write_text(text)
        rendering.helm("package", f"{copy / sources.CHART}", "--destination", f"{made}")
        (made / "berth.yaml").write_text(rendering.text(copy / sources.CHART))
        (made / "berth-crds.yaml").write_text(_kinds(copy))
        (made / CHECKSUMS).write_text(checksums(made))
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def package(copy: Path, folder: Path) -> Path:
    """Build the source distribution, and from that the wheel; return the wheel."""
    words = (sys.executable, "-m", "build", "--quiet", "--outdir", f"{folder}", f"{copy}")
    environment = {
        **os.environ,
        "PIP_CONSTRAINT": f"{copy / '.constraints.txt'}",
        "SOURCE_DATE_EPOCH": f"{sources.last_change()}",
    }
    made = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if made.returncode:
        raise CannotPackage(f"The wheel could not be built: {made.stderr.strip() or made.stdout.strip()}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def checksums(folder: Path) -> str:
    """Return the checksums of a folder's files, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def _kinds(copy: Path) -> str:
    """Return the kinds in one file, for `kubectl apply` before an upgrade."""
    return "---\n".join(path.read_text() for path in sorted((copy / "crds").glob("*.yaml")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version", metavar="VERSION", help="such as 1.2.3, or 1.2.3-rc.1 before it is out")
    images.add_options(parser)
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where to put them (default: build/release)"
    )
    return parser


def _tell(sentence: str) -> None:
    print(f"release: {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
