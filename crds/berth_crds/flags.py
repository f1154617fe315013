"""Command lines of the programs of Berth: flags, what stands in for them, and usage errors.

A flag wins over its variable, that over a configuration file, and the file over the default. A value that
cannot be used raises `UsageError`, which names what a person wrote: the flag, the variable, or the key of the
file.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Self

from berth_crds.text import quoted

EXIT_UNUSABLE: Final = 2  # Of every program that is started with settings that cannot be used.
HIGHEST_PORT: Final = (1 << 16) - 1


class UsageError(Exception):
    """The settings cannot be used; the message is one sentence for a person."""


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` where argparse would print its usage and exit."""

    def __init__(self, *, prog: str, **texts: Any) -> None:
        super().__init__(
            prog=prog, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **texts
        )
        add_version(self, prog)

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        raise UsageError(f"{message}; see {self.prog} --help")


def add_version(parser: argparse.ArgumentParser, program: str) -> None:
    """Add the flag --version."""
    parser.add_argument("--version", action=_Version, const=program)


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], const: str, **_: Any) -> None:
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            nargs=0,
            const=const,
            help="show the version of this program and exit",
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        # Not at the top: this takes memory that an agent has no other use for.
        from importlib import metadata  # noqa: PLC0415

        sys.stdout.write(f"{self.const} {metadata.version('berth')}\n")
        parser.exit()


# ---------------------------------------------------------------- what flags are read from


class SourcedText(str):
    """A text for a flag that was not written behind it: from a variable, or from a key of a file."""

    __slots__ = ("source",)

    source: str

    def __new__(cls, text: str, source: str) -> Self:
        """Return the text with the name of the variable, or of the file and its key."""
        made = super().__new__(cls, text)
        made.source = source
        return made


def variable(flag: str) -> str:
    """Return the name of the variable behind a flag."""
    return f"BERTH_{flag.upper().replace('-', '_')}"


def default(environment: Mapping[str, str], usual: Any, *variables: str) -> Any:
    """Return the text of the first of these variables that is set, or the usual value."""
    for name in variables:
        if environment.get(name):
            return SourcedText(environment[name], name)
    return usual


def reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of a flag that names the variable or the file that its text came from."""

    def reading(text: str) -> Any:
        try:
            return read(text)
        except argparse.ArgumentTypeError as error:
            if isinstance(text, SourcedText):
                raise UsageError(f"{text.source}: {error}") from None
            raise

    return reading


def address(text: str) -> str:
    """Return an address to listen at; empty is none."""
    host, colon, port = text.rpartition(":")
    if text and not (colon and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not HOST:PORT")
    if text and int(port) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{quoted(text)}: a port is at most {HIGHEST_PORT}")
    return f"{host or '0.0.0.0'}:{port}" if text else ""


def schedulers(text: str) -> tuple[str, ...]:
    """Return names of schedulers, which are separated by commas."""
    found = tuple(name for name in (part.strip() for part in text.split(",")) if name)
    several = [name for name in found if len(name.split()) > 1]
    if several:
        raise argparse.ArgumentTypeError(f"{quoted(several[0])} is not one name; separate names by commas")
    if not found:
        raise argparse.ArgumentTypeError(f"{quoted(text)} names no scheduler")
    return found
