"""What the API server refuses of policies, and that it says why in words that help."""

from collections.abc import Callable

import pytest

from crds import example_objects
from testbed import api

Change = Callable[[example_objects.Object], object]

REFUSED: list[tuple[str, Change, str]] = [
    (
        "an unknown strategy",
        lambda made: made["spec"].update(strategy="luck"),
        'supported values: "fragmentation", "binpack", "spread", "weighted"',
    ),
    (
        "weights that are all zero",
        lambda made: made["spec"].update(weights={"core": 0, "memory": 0}),
        "core or memory must have a weight above 0",
    ),
    (
        "a negative weight",
        lambda made: made["spec"]["weights"].update(core=-1),
        "spec.weights.core in body should be greater than or equal to 0",
    ),
    (
        "an error that is ignored and critical",
        lambda made: made["spec"]["health"].update(ignoredXids=[79]),
        "an XID cannot stand in both criticalXids and ignoredXids",
    ),
    (
        "a label that counts for less than nothing",
        lambda made: made["spec"]["priorities"].update(labelAtMost=-1),
        "spec.priorities.labelAtMost in body should be greater than or equal to 0",
    ),
    (
        "an address of Prometheus with credentials",
        lambda made: made["spec"]["load"]["prometheus"].update(url="https://me:secret@prometheus"),
        "url must begin with http:// or https:// and have neither credentials nor a query",
    ),
    (
        "an address that is no web address",
        lambda made: made["spec"]["load"]["prometheus"].update(url="file:///etc/passwd"),
        "url must begin with http:// or https:// and have neither credentials nor a query",
    ),
    (
        "loads that end before Prometheus is asked again",
        lambda made: made["spec"].update(load={"prometheus": {"maxAgeSeconds": 15}}),
        "intervalSeconds must be less than maxAgeSeconds",
    ),
    (
        "an unknown source of loads",
        lambda made: made["spec"]["load"].update(source="leases"),
        'supported values: "agents", "prometheus"',
    ),
    (
        "no grace at all",
        lambda made: made["spec"]["agents"].update(graceSeconds=0),
        "spec.agents.graceSeconds in body should be greater than or equal to 1",
    ),
    (
        "less core than there is",
        lambda made: made["spec"]["oversale"].update(core=50),
        "spec.oversale.core in body should be greater than or equal to 100",
    ),
    (
        "core that is oversold to nobody",
        lambda made: made["spec"]["oversale"].update(priorityClasses=[]),
        "spec.oversale.priorityClasses in body should have at least 1 items",
    ),
    (
        "two schedulers in one name",
        lambda made: made["spec"].update(podRecordsFrom=["koord-scheduler,other"]),
        "spec.podRecordsFrom[0] in body should match",
    ),
    (
        "a scheduler that is named twice",
        lambda made: made["spec"].update(podRecordsFrom=["a", "a"]),
        'spec.podRecordsFrom[1]: Duplicate value: "a"',
    ),
    (
        "more schedulers than are believed",
        lambda made: made["spec"].update(podRecordsFrom=[f"s-{at}" for at in range(17)]),
        "spec.podRecordsFrom: Too many: 17: must have at most 16 items",
    ),
]


@pytest.mark.parametrize(("change", "words"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED])
def test_a_wrong_policy_is_refused_in_words(
    change: Change, words: str, objects: example_objects.ExampleObjects
) -> None:
    """Whoever writes nonsense is told which field is wrong and what it should be."""
    made = objects.make("placementpolicy")
    change(made)

    with pytest.raises(api.ApiError) as refused:
        objects.put(made, dry_run=True)

    assert words in str(refused.value)
