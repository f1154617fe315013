"""What pods ask is counted: neither order nor what has been matters, only which pods are known now."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import workload
from berth_operator.scheduling.devices import requests
from support import builders, random_clusters

Story = list[tuple[str, workload.Sample | None]]
UIDS = st.sampled_from(["a", "b", "c", "d"])
STORIES = st.lists(st.tuples(UIDS, st.none() | random_clusters.SAMPLES), max_size=12)


def counts(known: workload.Workload) -> dict[str, Any]:
    """Return all that is counted."""
    return {
        "pods": len(known),
        "sizes": {size: int(count) for size, count in enumerate(known.sizes) if count},
        "asked": (known.cpu, known.memory, known.percent),
        "models": dict(known.by_models),
    }


def of(samples: dict[str, workload.Sample]) -> workload.Workload:
    """Give a workload of these pods."""
    made = workload.Workload()
    for uid, sample in samples.items():
        made.see(uid, sample)
    return made


# ---------------------------------------------------------------- what one pod teaches

TAUGHT: dict[str, tuple[tuple[int | requests.Ask, ...], tuple[tuple[int, int], ...]]] = {
    "whole cards": ((2,), ((100, 2),)),
    "a share by compute": ((requests.Gpus(1, core=30, ratio=20),), ((30, 1),)),
    "a share by memory in percent": ((requests.Gpus(1, core=10, ratio=20),), ((20, 1),)),
    "a share by bytes": ((requests.Gpus(1, memory=12 * builders.GIB),), ((25, 1),)),
    "bytes are rounded up": ((requests.Gpus(1, memory=1),), ((1, 1),)),
    "more bytes than a card has": ((requests.Gpus(1, memory=999 * builders.GIB),), ((100, 1),)),
    "several shares": ((requests.Gpus(3, core=50, ratio=50),), ((50, 3),)),
    "whole cards and a share": ((1, requests.Gpus(1, core=50, ratio=50)), ((100, 1), (50, 1))),
}


@pytest.mark.parametrize(("asks", "sizes"), TAUGHT.values(), ids=TAUGHT.keys())
def test_sample(asks: tuple[int | requests.Ask, ...], sizes: tuple[tuple[int, int], ...]) -> None:
    """A pod teaches its cpu, and the pieces of cards that it asks for, in percent."""
    assert workload.sample(builders.request(*asks), builders.demand(500)) == workload.Sample(500, 0, sizes)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(requests.NO_DEVICES, id="nothing"),
        pytest.param(builders.request(requests.Instances(builders.PROFILE, 1)), id="instances"),
        pytest.param(builders.request(requests.Replicas(2)), id="replicas"),
        pytest.param(builders.request(requests.OtherDevices("rdma", 1)), id="other devices"),
    ],
)
def test_pod_without_plain_cards_teaches_what_goes_elsewhere(request_: requests.DeviceRequest) -> None:
    """Who asks for no card and no share of one says nothing of them, but takes cpu that cards need."""
    sample = workload.sample(request_, builders.demand(500))

    assert sample == workload.Sample(500, 0)
    known = of({"a": sample, "b": workload.Sample(100, 0, ((50, 1),))})
    assert (known.cpu, known.cpu_elsewhere, known.count) == (100, 500, 1)
    assert workload.sample(request_, builders.demand(0)) is None


def test_what_no_node_can_give_teaches_nothing() -> None:
    """Else one pod that never runs would decide what the cards of all others are worth."""
    most = workload.MOST_CARDS

    assert workload.sample(builders.request(most), builders.demand(500)) is not None
    assert workload.sample(builders.request(most, 1), builders.demand(500)) is None


def test_models_are_known_by_what_spellings_have_in_common() -> None:
    """Two spellings of one model are one."""
    one = workload.sample(builders.request(1, models=["Tesla T4"]), builders.demand())
    other = workload.sample(builders.request(1, models=["nvidia t4"]), builders.demand())

    assert one == other
    assert one is not None and one.models


# ---------------------------------------------------------------- counting


@random_clusters.PROPERTY
@hypothesis.given(story=STORIES)
def test_only_what_is_known_now_counts(story: Story) -> None:
    """After any coming, changing and going the counts are those of the pods that are left (I8)."""
    known = workload.Workload()
    left: dict[str, workload.Sample] = {}

    for uid, sample in story:
        known.see(uid, sample)
        left.pop(uid, None)
        if sample is not None:
            left[uid] = sample

    assert counts(known) == counts(of(dict(sorted(left.items()))))


def test_what_changes_nothing_is_no_new_version() -> None:
    """Hearing the same of a pod again, or of the end of a stranger, asks for no new model."""
    sample = workload.Sample(1, 2, ((50, 1),))
    known = of({"a": sample})
    before = known.version

    known.see("a", sample)
    known.see("nobody", None)
    known.forget("nobody")

    assert known.version == before
