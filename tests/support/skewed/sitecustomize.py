"""A wrong clock: with this folder on its PYTHONPATH, a Python process lives BERTH_TEST_SKEW seconds away.

Python imports a module of this name before anything else. The time of day is shifted for
all that is asked in Python; the monotonic clock is not, for no clock that is merely set
wrong runs wrong.
"""

import datetime as dt
import os
import time
from collections.abc import Callable
from typing import Any, Final

SKEW: Final = float(os.environ.get("BERTH_TEST_SKEW", "0"))
BILLION: Final = 10**9

Real = dt.datetime
real_time, real_time_ns = time.time, time.time_ns
real_gmtime, real_localtime = time.gmtime, time.localtime


class Pretender(type):
    """Lets a moment made elsewhere count as one of ours."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, Real)


class Shifted(Real, metaclass=Pretender):
    """A datetime whose present is elsewhere."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        """Return the present moment."""
        return Real.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        """Return the present moment in UTC, without saying so."""
        return Real.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        """Return the present local moment."""
        return Real.fromtimestamp(time.time())


class Shift:
    """A function of the module `time`, which a class may keep without making it a method of its own."""

    def __init__(self, real: Callable[[float], time.struct_time]) -> None:
        """Remember what tells the moment of a number of seconds."""
        self._real = real

    def __call__(self, seconds: Any = None) -> time.struct_time:
        """Tell a moment, the present one if none is given."""
        return self._real(time.time() if seconds is None else seconds)


time.time = lambda: real_time() + SKEW
time.time_ns = lambda: real_time_ns() + int(SKEW * BILLION)
time.gmtime, time.localtime = Shift(real_gmtime), Shift(real_localtime)
dt.datetime = Shifted  # type: ignore[misc]
