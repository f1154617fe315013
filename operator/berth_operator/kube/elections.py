"""Makes the leader election of an operator from its settings."""

import asyncio
import time
from typing import Final

from berth_crds import names
from berth_crds.client import api, lease
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import elector, feeds, leadership
from berth_operator.metrics import Metrics
from berth_operator.settings import Settings

# So long before we may lead, bookmarks are asked for: they come a second later at the earliest, and one that
# comes before we lead is of no use.
AHEAD_SECONDS: Final = 0.7


def make(
    session: api.Api,
    identity: str,
    settings: Settings,
    metrics: Metrics,
    watchdog: Watchdog,
    all_feeds: feeds.Feeds,
) -> leadership.LeaderElection:
    """Return the leader election, which has a thread and a session of its own."""
    timing = elector.Timing(settings.lease_duration, settings.renew_deadline, settings.retry_period)
    main = asyncio.get_running_loop()

    def restored(evidence: str) -> None:
        main.call_soon_threadsafe(session.history.restored, evidence)

    def lapsing(seconds: float) -> None:
        pause = max(0.0, seconds - AHEAD_SECONDS)
        main.call_soon_threadsafe(main.call_later, pause, all_feeds.expect_catch_up)

    def make_elector(own: api.Api, hung_seconds: leadership.HungSeconds) -> elector.Elector:
        environment = elector.Environment(
            time.monotonic,
            lease.wall,
            hung_seconds,
            restored,
            settings.namespace,
            watchdog.stale_revision,
            lapsing,
        )
        return elector.Elector(own, identity, timing, environment)

    return leadership.LeaderElection(
        lambda: api.Api(session.link, agent=names.OPERATOR_MANAGER, count_request=metrics.writes),
        make_elector,
        clock=time.monotonic,
        lost=leadership.exit_lost,
    )
