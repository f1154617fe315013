"""How long finding out may take why pods on paper do not fit."""

import pytest

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator
from berth_operator.simulation import cluster, whys
from simulation import desk
from support import builders, clock


def test_explanation_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts are told all the same, and that there may be more to say."""
    parts = [desk.pod(limits={"berth.dev/gpu-core": 40, "berth.dev/gpu-memory": "1Gi"})] * 9
    containers = [one["spec"]["containers"][0] | {"name": f"c{at}"} for at, one in enumerate(parts)]
    objects = *desk.both(), desk.pod(containers=containers)
    (usual,) = desk.place(*objects)

    monkeypatch.setattr(whys, "EACH_SECONDS", 0.0)
    monkeypatch.setattr(whys, "LEAST_SECONDS", 0.0)
    (late,) = desk.place(*objects)

    assert whys.UNFINISHED not in str(usual["nearest"])
    assert whys.UNFINISHED in late["nearest"]
    assert late["refusals"][0]["node"] == "n1"


def test_all_explanations_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they have taken as long as they may, each further one has little time left."""
    allowed: list[float] = []
    monkeypatch.setattr(allocator, "stopwatch", lambda _, seconds: allowed.append(seconds))
    paper = cluster.Cluster(clock=clock.Ticking(0.6))
    explainer = whys.Explainer(paper, whole=whys.NONE)

    for at in range(30):
        pod = builders.candidate(f"p{at}", request=builders.request(at + 1))
        explainer.why(pod, decisions.Wait(pod.uid, (), frozenset()))

    assert (max(allowed), allowed[-1]) == (whys.EACH_SECONDS, whys.LEAST_SECONDS)
    assert sum(allowed[:-10]) < 2 * whys.ALL_SECONDS
