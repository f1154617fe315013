"""Texts that somebody else wrote, made fit for a line of a log, a condition or a terminal.

A server, a driver, a file or the author of a pod may write anything: escape sequences that
have a terminal lie, marks that turn the order of letters round, line breaks that forge a
second message, a million characters. What Berth passes on of such a text goes through here.
Words of many languages stay as they are.
"""

from typing import Final

LONGEST: Final = 1000
CUT: Final = "..."


def line(said: str, *, most: int = LONGEST) -> str:
    r"""Return a text as one printable line of at most so many characters.

    White space becomes single spaces, and other characters that print nothing or steer the
    output become escapes such as `\x1b`. A text that is such a line already is returned as it is.
    """
    if len(said) <= most and said.isprintable():
        return said
    plain = "".join(map(_printed, " ".join(said[: most + 1].split())))
    return plain if max(len(said), len(plain)) <= most else plain[: most - len(CUT)] + CUT


def _printed(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
