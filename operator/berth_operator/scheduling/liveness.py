"""Who is silent: judged by the moments at which renewals were seen.

The clocks of two machines never agree, so the time written in a Lease is only compared
with itself: a changed one is a sign of life at the moment we saw it. How long an agent may
give no sign is `spec.agents.graceSeconds` of the PlacementPolicy.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Sign:
    """The last sign of life of one agent: what it wrote, when we saw it, and whether we saw it change.

    The first Lease we read may be an old one, whose holder died before we started.
    """

    renewal: str
    seen: float
    fresh: bool


def note(signs: dict[str, Sign], node: str, renewal: str, now: float) -> bool:
    """Record a Lease; tell whether it says anything new."""
    if (known := signs.get(node)) is not None and known.renewal == renewal:
        return False
    signs[node] = Sign(renewal, now, fresh=known is not None)
    return True


def silent(sign: Sign | None, *, now: float, grace: float, condemned: bool) -> bool:
    """Return whether an agent is silent: no sign of life within the grace period.

    An agent that was found silent before we started needs a sign that we saw happen.
    """
    if sign is None or now - sign.seen > grace:
        return True
    return condemned and not sign.fresh
