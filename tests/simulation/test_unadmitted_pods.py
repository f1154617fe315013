"""What a simulation makes of pods that somebody else put on a node and that have not started."""

import pytest

from simulation import simulator


@pytest.mark.parametrize(
    ("status", "place", "note"),
    [
        pytest.param(
            {"phase": "Pending"}, "n1", "Pod ml/large does not count on n1", id="it has not started"
        ),
        pytest.param(
            {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"},
            "n1",
            "Pod ml/large does not count on n1",
            id="its kubelet has seen it",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [{"name": "main"}]},
            None,
            "Pod ml/large withholds cards of n1",
            id="it has",
        ),
    ],
)
def test_a_pod_that_its_kubelet_cannot_admit_takes_nothing(
    status: simulator.Body, place: str | None, note: str
) -> None:
    """It counts once it has started, as on a cluster."""
    node = simulator.advertising(4)
    asks = {"nvidia.com/gpu": 4, "cpu": 65}
    large = simulator.pod("large", asks, nodeName="n1", schedulerName="other") | {"status": status}

    answer = simulator.run_on([node, simulator.device(), large, simulator.pod()], "-o", "json")

    assert [one["node"] for one in answer.objects] == [place]
    assert note in answer.notes
