"""Berth in pods, installed by helm from its images on a real kubelet: as its users have it."""

import shutil
from collections.abc import Iterator

import pytest

from release import bed as beds
from testbed import lending, workers
from testbed.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[beds.Bed]:
    """Lend a cluster with one real node on which Berth is installed."""
    if why := workers.obstacle():
        pytest.skip(why)
    if missing := [name for name in ("buildah", "mmdebstrap") if not shutil.which(name)]:
        pytest.skip(f"images are built with {' and '.join(missing)}, which are not on the PATH")
    folder = tmp_path_factory.mktemp("bed")
    for cluster in lending.lend(Cluster(), request.config):
        with beds.made(cluster, folder) as made:
            made.install()
            yield made


def restarts(bed: beds.Bed, name: str) -> list[int]:
    """Return how often the containers of a pod were started again."""
    statuses = bed.pods("default")[name]["status"]["containerStatuses"]
    return [one["restartCount"] for one in statuses]


def test_a_pod_sees_its_cards_soon_after_the_installation(bed: beds.Bed) -> None:
    """Operator and agent run by their own accounts, and the agent reads the cards of the driver's library."""
    bed.until_ready("berth-operator", "berth-agent")
    bed.create("train", 2)
    bed.until_ready("train", namespace="default")

    seen = bed.cards("train")
    assert len(set(seen)) == 2
    assert all(card.startswith("GPU-") for card in seen)
    assert "A100-SXM4-80GB x8" in bed.cluster.kubectl("get", "devices")
    bed.helm("test", "--timeout", "60s")


def test_another_operator_goes_on_where_the_leader_was_killed(bed: beds.Bed) -> None:
    """Its pod is made again by the Deployment."""
    bed.cluster.kubectl(
        *("delete", "pods", "-n", beds.NAMESPACE, "-l", "app.kubernetes.io/name=berth-operator"),
        *("--grace-period=0", "--force"),
    )
    bed.create("after", 1)

    bed.until_ready("after", namespace="default")
    assert not set(bed.cards("after")) & set(bed.cards("train"))


def test_an_upgrade_of_the_agents_touches_no_pod(bed: beds.Bed) -> None:
    """The DaemonSet rolls, there and back again, and what was given stays given."""
    before = bed.cards("train"), bed.pods("default")["train"]["metadata"]["uid"]
    for change in (("upgrade", *bed.chart, "--set", "agent.args={--log-level=debug}"), ("rollback",)):
        former = {name for name in bed.pods() if name.startswith("berth-agent")}
        bed.helm(*change)
        bed.until_gone(*former)
        bed.until_ready("berth-agent")
    bed.create("late", 1)
    bed.until_ready("late", namespace="default")

    assert (bed.cards("train"), bed.pods("default")["train"]["metadata"]["uid"]) == before
    assert restarts(bed, "train") == [0]


def test_what_runs_stays_when_berth_is_removed(bed: beds.Bed) -> None:
    """And so do its records."""
    bed.helm("uninstall")
    bed.until_gone(*bed.pods())

    assert restarts(bed, "train") == [0]
    assert {one["status"]["phase"] for one in bed.pods("default").values()} == {"Running"}
    assert "train" in bed.cluster.kubectl("get", "gpupods", "--namespace", "default")
