"""The annotations that a bind writes into a pod: `held_devices` reads them back."""

from collections.abc import Iterable

from berth_crds import allocation, names
from berth_crds.vocabulary import PodRecords
from berth_operator.scheduling import decisions
from berth_operator.translate import foreign_records


def of(
    placement: decisions.Placement,
    *,
    term: str,
    containers: Iterable[str] = (),
    records: PodRecords = PodRecords.BERTH,
) -> dict[str, str]:
    """Return the annotations of a bind; a pod without devices has no allocation.

    `records` says in whose annotations it stands. Of the `containers` those that were given nothing are
    told so: an image may say that it gets all cards.
    """
    holders = {grant.container for grant in placement.grants}
    answer = allocation.without_cards(name for name in containers if name not in holders)
    if not placement.grants:
        return answer | {names.TERM: term}
    if records is PodRecords.KOORDINATOR:
        answer |= foreign_records.of_koordinator(placement)
    return answer | allocation.annotations(allocation_of(placement), term=term)


def allocation_of(placement: decisions.Placement) -> allocation.Allocation:
    """Return the allocation of a placement, as the annotation holds it."""
    containers = {
        grant.container: allocation.by_type(
            (
                one.type,
                allocation.Share(
                    one.uuid,
                    one.minor,
                    one.core,
                    one.memory,
                    one.profile,
                    one.function,
                    one.replicas,
                    one.core_limit,
                ),
            )
            for one in grant.shares
        )
        for grant in placement.grants
    }
    return allocation.of(placement.node, containers)
