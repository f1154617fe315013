"""The API server takes what a benchmark makes for claims of cards."""

from bench import claimed_cards
from testbed import cluster as clusters


def test_the_server_takes_all_of_it(cluster: clusters.Cluster, namespace: str) -> None:
    """A class, a slice of a node, a claim, and a pod that names one; nothing of it is kept."""
    group, pods = claimed_cards.GROUP, f"/api/v1/namespaces/{namespace}/pods"

    for path, body in (
        (f"{group}/deviceclasses", claimed_cards.device_class()),
        (f"{group}/resourceslices", claimed_cards.slice_of("node")),
        (f"{group}/namespaces/{namespace}/resourceclaims", claimed_cards.claim_of(0)),
        (pods, claimed_cards.pod(0, "default-scheduler")),
    ):
        assert not cluster.objection(path, body)
    assert "deviceClassName" in cluster.objection(f"{group}/namespaces/{namespace}/resourceclaims", WRONG)


WRONG = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {}}]}}}
