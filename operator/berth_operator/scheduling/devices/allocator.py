"""Which devices of one node a pod gets: what the rest of the core calls of this package.

`allocate_or_explain` takes the devices of one node and the whole request of a pod, and returns
the devices of each container, or why there are none. It reads nothing else and changes nothing: equal
views and requests give equal answers, in whatever order cards and holds are listed.

Behind it, `conditions` and `verdicts` judge one card for one ask. `packing_problems` makes a packing problem
of all asks, `packing` solves it exactly, and `preferences` says what is preferred (with `mig_slices` for MIG,
and `card_sets` and `scopes` for sets of cards); `joint` keeps together what must be, and `exclusivity` apart
what must not meet. `simple` is the short way for most pods: a share of one card is on the card that the
strategy names (`strategies`), if it has room. `grants` returns the answer container by container,
`shortfalls` why there is none.
"""

from collections.abc import Hashable

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import (
    device_view,
    equivalence,
    exclusivity,
    finder,
    grants,
    requests,
    shortfalls,
    verdicts,
)
from berth_operator.scheduling.devices.search_effort import Effort

Shortfall = shortfalls.Shortfall
Verdict = verdicts.Verdict
judge = verdicts.judge
peak_shares = grants.peak_shares
left_out = shortfalls.left_out


def allocate_or_explain(
    view: device_view.View,
    request: requests.DeviceRequest,
    *,
    first_slot: int | None = None,
    effort: Effort | None = None,
) -> tuple[decisions.Grant, ...] | shortfalls.Shortfall:
    """Find devices for all containers of a pod on one node, or say why there are none.

    `first_slot` is the slot to try first, where a share of one card was matched with one already.
    `effort` bounds the search, and the search for the reason too, where many nodes are asked.
    """
    mine = Effort() if effort is None else effort
    view = _restricted(view, request)
    if (found := finder.find(view, request, mine, first_slot=first_slot)) is not None:
        return found
    return shortfalls.explain(view, request, undecided=mine.cut_short, effort=effort)


def allocate(
    view: device_view.View,
    request: requests.DeviceRequest,
    *,
    first_slot: int | None = None,
    effort: Effort | None = None,
) -> tuple[decisions.Grant, ...] | None:
    """Find devices likewise, without asking why there are none: for many nodes in a row."""
    mine = Effort() if effort is None else effort
    view = _restricted(view, request)
    return finder.find(view, request, mine, first_slot=first_slot)


def equivalence_class(view: device_view.View, request: requests.DeviceRequest) -> Hashable:
    """Return what the nodes have in common that give the same answer to a request."""
    return equivalence.class_of(_restricted(view, request), request)


def _restricted(view: device_view.View, request: requests.DeviceRequest) -> device_view.View:
    """Return the view by the rules of the pod: how much core may be promised, and what it wants alone."""
    grouping = request.grouping
    if grouping.core_limit != requests.WHOLE:
        view = view.up_to(grouping.core_limit)
    return exclusivity.for_request(view, request) if grouping.exclusive else view
