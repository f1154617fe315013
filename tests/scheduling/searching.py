"""What tests of the search share: the usual rules and shares, a look for a place, and what it gave."""

from typing import Final

import hypothesis

from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import worlds

RULES: Final = Policy()
HALF: Final = requests.Gpus(1, core=50, ratio=50)
TENTH: Final = requests.Gpus(1, core=10, ratio=10)
THOROUGH: Final = hypothesis.settings(worlds.PROPERTY, max_examples=100)


def place(
    inventory: Inventory, candidate: queued_pods.Candidate, policy: Policy = RULES
) -> decisions.Placement | None:
    """Look for a place."""
    return Search(inventory).place(candidate.request, candidate.demand, policy=policy)


def minors(placement: decisions.Placement | None) -> list[int] | None:
    """List the minors of a placement."""
    return None if placement is None else [share.minor for share in worlds.given(placement)]
