"""How long finding out may take why the pods of a simulated cluster do not fit."""

import pytest

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import search_effort
from berth_operator.simulation import pod_explanations
from berth_operator.simulation.cluster import Cluster
from simulation import simulator
from support import builders, clock


def test_explanation_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts are told all the same, and that there may be more to say."""
    parts = [simulator.pod(limits={"berth.dev/gpu-core": 40, "berth.dev/gpu-memory": "1Gi"})] * 9
    containers = [one["spec"]["containers"][0] | {"name": f"c{at}"} for at, one in enumerate(parts)]
    objects = *simulator.both(), simulator.pod(containers=containers)
    (usual,) = simulator.place(*objects)

    monkeypatch.setattr(pod_explanations, "POD_SECONDS", 0.0)
    monkeypatch.setattr(pod_explanations, "MIN_SECONDS", 0.0)
    (late,) = simulator.place(*objects)

    assert pod_explanations.UNFINISHED not in str(usual["nearest"])
    assert pod_explanations.UNFINISHED in late["nearest"]
    assert late["refusals"][0]["node"] == "n1"


def test_all_explanations_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they have taken as long as they may, each further one has little time left."""
    allowed: list[float] = []
    monkeypatch.setattr(search_effort, "timer", lambda _, seconds: allowed.append(seconds))
    cluster = Cluster(clock=clock.Ticking(0.6))
    explainer = pod_explanations.Explainer(cluster, detailed_nodes=pod_explanations.NEAREST_ONLY)

    for at in range(30):
        pod = builders.pod_info(f"p{at}", request=builders.request(at + 1))
        explainer.explain_pod(pod, decisions.Wait(pod.uid, (), frozenset()))

    assert (max(allowed), allowed[-1]) == (pod_explanations.POD_SECONDS, pod_explanations.MIN_SECONDS)
    assert sum(allowed[:-10]) < 2 * pod_explanations.RUN_SECONDS
