"""The pauses of binds after a 429 of the API server (Too Many Requests, `ports.Throttled`).

A server with too many requests rejects some, and names a time. It divides its capacity fairly, so the
rejected ones may be those of one namespace: there a write may cost it a hundred times as much as elsewhere,
such as where thousands watch the pods. So only the namespace whose bind was rejected pauses. If a second one
is told to pause meanwhile, all do.
"""

import asyncio

from berth_operator.engine import ports, rate_limiter


class BindPauses:
    """Which namespaces pause, and until when; a pause of all is one of the rate limiter."""

    def __init__(self, clock: ports.Clock, limiter: rate_limiter.RateLimiter) -> None:
        self._clock = clock
        self._rate_limiter = limiter
        self._until: dict[str, float] = {}

    def add(self, namespace: str, seconds: float) -> bool:
        """Let a namespace pause; return whether all do because it is not the only one."""
        self.forget_over(now := self._clock())
        until = now + min(seconds, rate_limiter.LONGEST_BACKOFF_SECONDS)
        self._until[namespace] = max(until, self._until.get(namespace, 0.0))
        if len(self._until) > 1:
            self._rate_limiter.back_off(seconds)
        return len(self._until) > 1

    def seconds_left(self, namespace: str) -> float:
        """Return for how long a namespace pauses; 0 if it does not."""
        return max(0.0, self._until.get(namespace, 0.0) - self._clock())

    async def wait(self, namespace: str) -> None:
        """Wait until a namespace does not pause."""
        while self.seconds_left(namespace):
            await self._sleep(namespace)

    async def _sleep(self, namespace: str) -> None:
        await asyncio.sleep(self.seconds_left(namespace))

    def forget_over(self, now: float) -> None:
        """Forget the pauses that are over."""
        self._until = {name: until for name, until in self._until.items() if until > now}

    def next_end(self) -> float | None:
        """Return when the next pause ends, if any namespace pauses."""
        return min(self._until.values(), default=None)
