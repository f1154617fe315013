"""The claims of pods are read by their names, whoever the pod is, and cost pods without claims nothing."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle, decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes.facts import PodClaim
from berth_operator.translate import pod_cache, pod_limits, pods
from support import builders

DATA: Final = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
SCRATCH: Final = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
TOKEN: Final = {"name": "kube-api-access-x7k2p", "projected": {}}
READ: Final[dict[str, tuple[list[dict[str, Any]], tuple[PodClaim, ...]]]] = {
    "no volumes": ([], ()),
    "volumes without claims": ([TOKEN, {"name": "e", "emptyDir": {}}], ()),
    "a claim": ([TOKEN, DATA], (PodClaim("ml", "data"),)),
    "a claim that is mounted twice": ([DATA, DATA | {"name": "again"}], (PodClaim("ml", "data"),)),
    "an ephemeral claim": ([SCRATCH], (PodClaim("ml", "p-scratch", "uid-p"),)),
    "both": ([SCRATCH, DATA], (PodClaim("ml", "p-scratch", "uid-p"), PodClaim("ml", "data"))),
}


@pytest.mark.parametrize(("volumes", "claims"), READ.values(), ids=READ.keys())
def test_the_claims_of_a_pod(volumes: list[dict[str, Any]], claims: tuple[PodClaim, ...]) -> None:
    """They are the same while it waits and once it is bound."""
    pod_info = pods.pod_info(builders.pod(gpus=0, volumes=volumes))
    bound = pods.read_bound(builders.pod(gpus=0, volumes=volumes, nodeName="n1"))

    assert pod_info.demand.claims == claims
    assert bound.hold.claims == claims
    assert cycle.hold_for(pod_info, decisions.Placement("n1")).claims == claims


def test_pods_of_one_workload_share_what_they_ask_but_for_their_claims() -> None:
    """The names of volumes may be random, and ephemeral claims are named after their pods."""
    one, other = (
        pods.pod_info(builders.pod(name, gpus=1, volumes=[SCRATCH, TOKEN | {"name": f"token-{name}"}]))
        for name in "ab"
    )

    assert one.request is other.request
    assert [claim.name for claim in (*one.demand.claims, *other.demand.claims)] == ["a-scratch", "b-scratch"]


@pytest.mark.parametrize("key", [pod_cache.waiting_key, pod_cache.bound_key])
def test_volumes_are_no_part_of_what_pods_of_a_workload_are_known_by(key: Any) -> None:
    """So a pod is read once, whatever its volumes are called."""
    assert key(builders.pod(volumes=[TOKEN])) == key(builders.pod(volumes=[DATA]))


def test_a_pod_of_very_many_claims_is_refused_and_a_bound_one_is_read_in_part() -> None:
    """The sentence names the limit, and nothing is kept of the claims."""
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in range(2000)]
    most = pod_limits.MAX_CLAIMS

    refused = pods.pod_info(builders.pod(volumes=volumes[: most + 1]))
    bound = pods.read_bound(builders.pod(volumes=volumes, nodeName="n1"))

    (fault,) = refused.faults
    assert fault.reason is Reason.UNSUPPORTED_REQUEST
    assert fault.detail == (f"the pod uses {most + 1} persistent volume claims; Berth reads {most} at most")
    assert refused.demand.claims == ()
    assert pods.pod_info(builders.pod(volumes=volumes[:most])).faults == ()
    assert len(bound.hold.claims) == pod_limits.MAX_BOUND_CLAIMS
