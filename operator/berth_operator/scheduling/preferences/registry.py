"""All preferences. To add one, write its file, name it here, and give it a weight in the policy."""

from collections.abc import Iterable, Iterator
from typing import Final

from berth_operator.scheduling import signatures
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import PreferenceWeights
from berth_operator.scheduling.preferences import (
    balance,
    default_spread,
    images,
    node_affinity,
    pod_affinity,
    spread,
    taints,
)
from berth_operator.scheduling.preferences.preference import Preference

PREFERENCES: Final[tuple[Preference, ...]] = (
    node_affinity.PREFERENCE,
    taints.PREFERENCE,
    pod_affinity.PREFERENCE,
    spread.PREFERENCE,
    default_spread.PREFERENCE,
    images.PREFERENCE,
    balance.PREFERENCE,
)
BY_NAME: Final = {one.name: one for one in PREFERENCES}


_REMEMBERED: Final = tuple(one for one in PREFERENCES if not one.of_each_pod and not one.beside_others)
_BESIDE_OTHERS: Final = tuple(one for one in PREFERENCES if one.beside_others)
_OF_EACH_POD: Final = tuple(one for one in PREFERENCES if one.of_each_pod)


def names_for_signature(
    inventory: Inventory, signature: signatures.Signature, weights: PreferenceWeights
) -> tuple[str, ...]:
    """Return the names of the preferences that count for all pods with this signature."""
    found = [one for one in _REMEMBERED if one.applies_to(inventory, signature)]
    if weights.unstated or found:
        found += [one for one in _BESIDE_OTHERS if one.applies_to(inventory, signature)]
    return tuple(one.name for one in found if getattr(weights, one.name))


def of_each_pod(
    inventory: Inventory, signature: signatures.Signature, weights: PreferenceWeights
) -> list[Preference]:
    """Return the preferences that count for this pod, and perhaps not for others with the same signature."""
    found = []
    for one in _OF_EACH_POD:
        if one.applies_to(inventory, signature) and getattr(weights, one.name):
            found.append(one)  # noqa: PERF401  # a comprehension is one more call, in each decision
    return found


def names_that_depend_on_the_node_alone(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of those preferences of which a node's figure depends on that node alone."""
    return (name for name in names if BY_NAME[name].depends_on is DependsOn.NODE)
