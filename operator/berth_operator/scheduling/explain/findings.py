"""What is found out about a pod that does not fit: values, before they are put into words.

An Explanation says of each node that refuses why it does, which node comes nearest, and
what would make the pod fit. All quantities are the core's own: percent
and bytes of cards, thousandths of cpu, whole numbers of everything else. Words are made
of them in `phrases` and `sentences`.
"""

import dataclasses
from typing import Final

from berth_operator.scheduling import decisions, known_models
from berth_operator.scheduling.deficits import Deficit
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.what_if.advice import Advice

NO_MINOR: Final = -1  # The minor of what is no device.


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Why one node refuses.

    `reason` is the first in the order of the constraints. Where that is about devices and the node
    was diagnosed, `shortfall` has the verdict on each card. `deficits` say how much is missing, and
    `withholding_pods` which pods hold devices that are not known by name. `never_fits` tells that
    the node could not take the pod even with nothing used; `is_known` is false where the pod asks for
    devices and the node has no Device, so that nobody knows what it might have.
    """

    node: str
    reason: decisions.Reason
    detail: str = ""
    never_fits: bool = False
    is_known: bool = True
    diagnosed: bool = False
    deficits: tuple[Deficit, ...] = ()
    withholding_pods: tuple[str, ...] = ()
    shortfall: allocator.Shortfall | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Nearest:
    """The node that comes closest, and its card where a single one does; `deficits` are what is missing.

    Where nothing is nearly enough, or not that alone, `whys` are all the things in the way.
    """

    node: str
    reason: decisions.Reason
    detail: str
    deficits: tuple[Deficit, ...]
    device: str = ""
    minor: int = NO_MINOR
    type: str = ""
    whys: tuple[tuple[decisions.Reason, str], ...] = ()

    @property
    def lack(self) -> float:
        """What part is missing of what is missing most."""
        return max((one.missing_fraction for one in self.deficits), default=1.0)


# ---------------------------------------------------------------- the whole


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """All that was found out.

    `counts` say how many nodes refuse for which reason, `nodes` has each of them by name.
    `total` is the number of all known nodes.
    `models` are those that there are, where the one that is asked for is lacking. `cut` tells
    that the budget ended before it was known what would help. `core_limit` is up to how many percent the core
    of a card may be promised with the pod, where a policy oversells it and the pod asks for a part; else 0.
    """

    counts: tuple[decisions.Count, ...]
    nodes: tuple[Finding, ...]
    total: int
    nearest: Nearest | None = None
    advice: tuple[Advice, ...] = ()
    models: known_models.Models = known_models.UNTOLD
    cut: bool = False
    core_limit: int = 0

    @property
    def fits(self) -> int:
        """How many nodes could take the pod as it is."""
        return self.total - len(self.nodes)

    @property
    def never_fits(self) -> bool:
        """Whether no node that is known could take the pod even with nothing used and nothing wrong."""
        known = [one for one in self.nodes if one.is_known]
        return bool(known) and not self.fits and all(one.never_fits for one in known)

    @property
    def unpublished(self) -> bool:
        """Whether the pod asks for devices, and there are nodes without a Device."""
        return not all(one.is_known for one in self.nodes)
