"""What a version is called: by Semantic Versioning where people read it, and as Python's packages want it."""

import re
import tomllib
from pathlib import Path
from typing import Final

from release.failure import CannotBuild

NUMBER: Final = r"(?:0|[1-9]\d*)"
SEMANTIC: Final = re.compile(
    rf"(?P<release>{NUMBER}\.{NUMBER}\.{NUMBER})(?:-(?P<before>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
CANDIDATE: Final = re.compile(r"(alpha|beta|rc)\.?(\d+)")


class NotAVersion(CannotBuild):
    """A text is no version."""


def of_package(version: str) -> str:
    """Return what Python's packages call a version, which sorts there as it should."""
    found = SEMANTIC.fullmatch(version)
    if found is None:
        raise NotAVersion(
            f"{version!r} is no version; write one as 1.2.3, or as 1.2.3-rc.1 before it is out."
        )
    before = found["before"]
    if before is None:
        return found["release"]
    if candidate := CANDIDATE.fullmatch(before):
        kind, number = candidate.groups()
        return f"{found['release']}{'rc' if kind == 'rc' else kind[0]}{number}"
    return f"{found['release']}.dev0+{before.lower().replace('-', '.')}"


def of_checkout(folder: Path) -> str:
    """Return the version that a checkout says it has, at the one place where it stands."""
    written = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
    assert isinstance(written, str)
    return written
