"""The rules of the house that no linter knows, checked by `make lint`.

A folder named `operator` with an `__init__.py` would be imported instead of the standard
module of that name; so would any module of ours that takes a standard name once its
folder is on the path. Long functions and files are where understanding ends. Each broken
rule is one line that says what to do.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {
    "pyproject.toml",
    "operator",
    "agent",
    "crds",
    "manifests",
    "tests",
    "Makefile",
    "README.md",
    "LICENSE",
}
PACKAGES = ("operator/berth_operator", "agent/berth_agent", "crds/berth_crds")
LONGEST_FUNCTION = 50
LONGEST_FILE = 400


def tracked() -> list[Path]:
    """Name all files of the project: those in git, and those that would be added."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (Path(line) for line in listing.stdout.splitlines())
    return [path for path in paths if (ROOT / path).is_file()]


def complaints(paths: list[Path]) -> Iterator[str]:
    """Find everything that breaks a rule."""
    for path in paths:
        yield from about_place(path)
        if path.suffix == ".py":
            yield from about_size(path, (ROOT / path).read_text())


def about_place(path: Path) -> Iterator[str]:
    """Judge a path by where it stands."""
    first = path.parts[0]
    if first not in TOP_LEVEL and not first.startswith("."):
        yield f"{path}: the top level is fixed; only dotfiles join {', '.join(sorted(TOP_LEVEL))}"
    if path.name == "__init__.py" and (first == "tests" or path.parent.name in {"operator", "agent", "crds"}):
        yield f"{path}: an __init__.py here would shadow or confuse imports; remove it"
    if path.parts[:2] == ("tests", "operator"):
        yield f"{path}: tests are filed by what is tested, never under `operator`"
    inside = any(str(path).startswith(f"{package}/") for package in PACKAGES)
    if inside and path.suffix == ".py" and path.stem in sys.stdlib_module_names:
        yield f"{path}: {path.stem} is a standard module's name; choose another"


def about_size(path: Path, text: str) -> Iterator[str]:
    """Judge a module by its length and that of its functions."""
    lines = text.count("\n")
    if lines > LONGEST_FILE:
        yield f"{path}: {lines} lines; split it, {LONGEST_FILE} is the most"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines; {LONGEST_FUNCTION} is the most"


def main() -> None:
    """Print what is wrong, if anything, and exit accordingly."""
    found = list(complaints(tracked()))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
