"""A round is over once it can do no more, and not only when its time is."""

from unittest import mock

from berth_operator.scheduling import cycle, round_limits
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import backlogs, builders

PART = requests.Gpus(1, core=40, memory=builders.GIB)  # Only a search tells where two of these fit.


def test_a_round_ends_once_there_is_too_little_effort_for_any_search() -> None:
    """It does not pass over thousands of pods until its time is over: the next round has effort for them."""
    request = builders.request(PART, PART)
    pods = [builders.pod_info(f"p{at:03}", request=request) for at in range(300)]
    deadlines = round_limits.RoundDeadlines(
        lambda: 0.0, ends=1.0, seconds_per_search=2.0, out_of_order_from=0.0
    )
    limits = round_limits.RoundLimits(deadlines=deadlines)
    search = Search(builders.inventory(*builders.nodes(3)))
    effort_for = round_limits.RoundBudget.effort_for

    with mock.patch.object(
        round_limits.RoundBudget, "effort_for", autospec=True, side_effect=effort_for
    ) as asked:
        list(cycle.schedule(search, backlogs.of(*pods), 0.0, Policy(), limits))

    assert 2 <= asked.call_count <= round_limits.MOST_PASSED_OVER + 2
