"""Texts from elsewhere, made fit for a line of a log, a condition or a terminal.

A server, a driver, a file or the author of a pod may write anything: escape sequences that
have a terminal lie, marks that turn the order of letters round, line breaks that forge a
second message, a million characters. What Berth passes on of such a text goes through here.
Words of many languages stay as they are.
"""

import errno
import os
import re
import ssl
from typing import Final

LONGEST: Final = 1000
CUT: Final = "..."
# Letters and marks of Unicode that nobody sees: fillers of Hangul, a joiner, vowels of Khmer, empty Braille.
INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
NAME: Final = re.compile(r"[\w.+/:@-]*")
PLACE: Final = re.compile(r" \(_ssl\.c:\d+\)$")  # Where in Python an error was raised.


def line(value: str, *, most: int = LONGEST) -> str:
    r"""Return a text as one printable line of at most so many characters.

    White space becomes single spaces, and other characters that print nothing or steer the
    output become escapes such as `\x1b`. A text that is such a line already is returned as it is.
    """
    if len(value) <= most and value.isprintable() and INVISIBLE.isdisjoint(value):
        return value
    plain = "".join(map(_printed, " ".join(value[: most + 1].split())))
    return plain if max(len(value), len(plain)) <= most else plain[: most - len(CUT)] + CUT


def quoted(value: str, *, most: int = LONGEST) -> str:
    """Return a text in quotes, as one printable line."""
    return f"'{line(value, most=most)}'"


def name(value: str, *, most: int = LONGEST) -> str:
    """Return a name as one printable line; in quotes if it could be taken for a part of the sentence.

    An apostrophe in it is escaped, so that it cannot end the quotes and go on as if we said it.
    """
    plain = line(value, most=most)
    return plain if NAME.fullmatch(value) else "'" + plain.replace("'", r"\x27") + "'"


def cause(error: BaseException) -> str:
    """Return the message of an error, in the system's words rather than Python's; empty if there is none."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "") or PLACE.sub("", str(error))
        return f"the server's certificate is not accepted (CERTIFICATE_VERIFY_FAILED: {why})"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None)
        return reason.replace("_", " ").lower() if reason else PLACE.sub("", str(error))
    if isinstance(error, OSError):
        number = error.errno or 0
        return os.strerror(number) if number in errno.errorcode else error.strerror or str(error)
    return str(error)


def _printed(character: str) -> str:
    plain = character.isprintable() and character not in INVISIBLE
    return character if plain else ascii(character)[1:-1]
