"""Command lines as the programs of Berth read them: flags, variables behind them, a sentence for a mistake.

A flag wins over its variable, and a variable over the default. What cannot be used becomes
`Refused`, which blames what a person wrote: the flag or the variable.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from berth_crds.text import quoted

EXIT_UNUSABLE: Final = 2  # Of every program that is started with settings that cannot be used.
HIGHEST_PORT: Final = (1 << 16) - 1


class Refused(Exception):
    """The settings cannot be used; the message is one sentence for a person."""


class Parser(argparse.ArgumentParser):
    """Refuses a mistake, where argparse would print its usage first and exit by itself."""

    def __init__(self, *, prog: str, **texts: Any) -> None:
        super().__init__(
            prog=prog, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **texts
        )
        add_version(self, prog)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise Refused(f"{message}; see {self.prog} --help")


def add_version(parser: argparse.ArgumentParser, program: str) -> None:
    """Have a program tell its version."""
    parser.add_argument("--version", action=_Version, const=program)


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], const: str, **_: Any) -> None:
        about = "show the version of this program and exit"
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, const=const, help=about)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        # Not at the top: this takes memory that an agent has no other use for.
        from importlib import metadata  # noqa: PLC0415

        sys.stdout.write(f"{self.const} {metadata.version('berth')}\n")
        parser.exit()


# ---------------------------------------------------------------- variables behind flags


class Said(str):
    """What a variable says, and the name of the variable."""

    __slots__ = ("variable",)

    variable: str


def variable(flag: str) -> str:
    """Return the name of the variable behind a flag."""
    return f"BERTH_{flag.upper().replace('-', '_')}"


def default(environment: Mapping[str, str], usual: Any, *variables: str) -> Any:
    """Return what the first of these variables says that says anything, or what is usual."""
    for name in variables:
        if environment.get(name):
            said = Said(environment[name])
            said.variable = name
            return said
    return usual


def reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads a flag, and blames a variable for what stands there."""

    def reading(text: str) -> Any:
        try:
            return read(text)
        except argparse.ArgumentTypeError as error:
            if isinstance(text, Said):
                raise Refused(f"{text.variable}: {error}") from None
            raise

    return reading


def address(text: str) -> str:
    """Read an address to listen at; empty is none."""
    host, colon, port = text.rpartition(":")
    if text and not (colon and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not HOST:PORT")
    if text and int(port) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{quoted(text)}: a port is at most {HIGHEST_PORT}")
    return f"{host or '0.0.0.0'}:{port}" if text else ""


def schedulers(text: str) -> tuple[str, ...]:
    """Read names of schedulers, separated by commas."""
    found = tuple(name for name in (part.strip() for part in text.split(",")) if name)
    odd = [name for name in found if len(name.split()) > 1]
    if odd:
        raise argparse.ArgumentTypeError(f"{quoted(odd[0])} is not one name; separate names by commas")
    if not found:
        raise argparse.ArgumentTypeError(f"{quoted(text)} names no scheduler")
    return found
