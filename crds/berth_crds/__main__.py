"""The command that keeps the CRDs on disk equal to the models.

`write` puts the generated files into a folder, `check` compares and names each file that
drifted, `print` shows them. The folder is the caller's to choose: in this repository it
is `crds`, and `make crds` and `make lint` pass it.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from berth_crds import schema


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


def _write(folder: pathlib.Path) -> None:
    for name, text in schema.files().items():
        (folder / name).write_text(text, encoding="utf-8")


def _check(folder: pathlib.Path) -> int:
    drifting = [name for name, text in schema.files().items() if _read(folder / name) != text]
    for name in drifting:
        print(f"berth_crds: {folder / name} differs from the models; run `make crds`", file=sys.stderr)
    return 1 if drifting else 0


def _read(file: pathlib.Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())
