"""The command that keeps what is generated equal to the models.

`write` puts the CRDs into a folder, `check` compares and names each file that differs, `print`
shows them. The folder is the caller's to choose: in this repository it is `crds`, and `make crds`
and `make lint` pass it. Where the folder has this package in it, as `crds` has, both also see to
the package's module `wire`.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Final

from berth_crds import schema, wire_source

PACKAGE: Final = "berth_crds"
WIRE: Final = "wire.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the answer is the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        match asked.command:
            case "write":
                _write(asked.folder)
            case "check":
                return _check(asked.folder)
            case _:
                sys.stdout.write("---\n".join(schema.files().values()))
    except OSError as error:
        print(f"berth_crds: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".venv/bin/python -m berth_crds", description="CRDs from the models of Berth."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, meaning in (
        ("write", "write the CRDs into a folder"),
        ("check", "fail when a CRD in a folder differs from the models"),
    ):
        command = commands.add_parser(name, help=meaning, description=meaning)
        command.add_argument("folder", type=pathlib.Path, help="the folder of the CRDs, such as crds")
    commands.add_parser("print", help="print the CRDs", description="print the CRDs")
    return parser


def _generated(folder: pathlib.Path) -> dict[pathlib.Path, str]:
    """Return the text of each file that belongs in a folder."""
    generated = {folder / name: text for name, text in schema.files().items()}
    package = folder / PACKAGE
    return generated | {package / WIRE: wire_source.text()} if package.is_dir() else generated


def _write(folder: pathlib.Path) -> None:
    for file, text in _generated(folder).items():
        file.write_text(text, encoding="utf-8")


def _check(folder: pathlib.Path) -> int:
    different = [file for file, text in _generated(folder).items() if _read(file) != text]
    for file in different:
        print(f"berth_crds: {file} differs from the models; run `make crds`", file=sys.stderr)
    return 1 if different else 0


def _read(file: pathlib.Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())
