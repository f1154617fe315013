"""Berth in pods, installed by helm from its images on a real kubelet: as its users have it."""

import json
import os
import time
from collections.abc import Iterator
from typing import Final

import pytest

from bench import results
from berth_crds import names
from release import bed as beds
from release import cached, in_kind
from testbed import lending, waiting
from testbed.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.cluster]

SECONDS_AWAY: Final = float(os.environ.get("BERTH_SECONDS_AWAY", "10"))  # `make e2e-install` has more.
SECONDS_TO_BIND: Final = 10.0


@pytest.fixture(scope="module")
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[beds.Bed]:
    """Lend a cluster with one real node on which Berth is installed."""
    beds.skip_without_tools()
    version = cached.made()
    for cluster in lending.lend(Cluster(), request.config):
        with beds.made(cluster, tmp_path_factory.mktemp("bed")) as made:
            made.load(version)
            yield made


def restarts(bed: beds.Bed, name: str) -> list[int]:
    """Return how often the containers of a pod were started again."""
    statuses = bed.pods("default")[name]["status"]["containerStatuses"]
    return [one["restartCount"] for one in statuses]


def test_a_pod_sees_its_cards_soon_after_the_installation(
    bed: beds.Bed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operator and agent run by their own accounts, and the agent reads the cards of the driver's library."""
    begin = time.monotonic()
    bed.install(cached.made())
    bed.until_ready(*beds.PROGRAMS)
    devices = f"/apis/{names.API_VERSION}/devices"
    waiting.until(lambda: bed.cluster.read(devices)["items"], what="the cards", seconds=120)
    assert "A100" in bed.cluster.kubectl("get", "devices")
    # The operator writes what it counts, by Kopf.
    waiting.until(
        lambda: "free" in bed.cluster.read(devices)["items"][0].get("status", {}).get("summary", {}),
        what="the summary of the cards",
        seconds=60,
    )
    bed.create("train", cards=2)
    bed.until_ready("train", namespace="default")
    seconds = round(time.monotonic() - begin, 1)
    results.write("install", {"seconds_to_first_pod": seconds})
    with capsys.disabled():
        print(f"\nfrom helm install to the first pod: {seconds} s")

    seen = bed.cards("train")
    assert len(set(seen)) == 2
    assert all(card.startswith("GPU-") for card in seen)
    bed.helm("test", "--timeout", "60s")


def test_another_operator_goes_on_where_the_leader_was_killed(bed: beds.Bed) -> None:
    """That which stood by; the pod of the other is made again by the Deployment."""
    leader = bed.leader()
    bed.cluster.kubectl("delete", "pod", leader, "-n", beds.NAMESPACE, "--grace-period=0", "--force")
    bed.create("after", cards=1)

    bed.until_ready("after", namespace="default")
    assert bed.leader() not in {"", leader}
    assert not set(bed.cards("after")) & set(bed.cards("train"))


def test_nothing_happens_to_pods_while_all_of_berth_is_away(bed: beds.Bed) -> None:
    """And those that wait are bound soon after it has come back."""
    before = bed.cards("train"), bed.pods("default")["train"]["metadata"]["uid"]
    bed.send_away()
    bed.until_gone(*bed.pods())
    if beds.HAS_POLICIES:
        bed.create("waiting", cards=1)
    time.sleep(SECONDS_AWAY)

    assert [
        one["metadata"]["name"] for one in bed.pods("default").values() if "nodeName" not in one["spec"]
    ] == (["waiting"] if beds.HAS_POLICIES else [])
    bed.call_back()
    bed.until_ready(*beds.PROGRAMS)
    bed.create("waiting", cards=1)
    waiting.until(
        lambda: "nodeName" in bed.pods("default")["waiting"]["spec"],
        what="the pod that waits to be bound",
        seconds=SECONDS_TO_BIND,
    )
    bed.until_ready("waiting", namespace="default")
    assert (bed.cards("train"), bed.pods("default")["train"]["metadata"]["uid"]) == before
    assert restarts(bed, "train") == [0]
    bed.cluster.kubectl("delete", "pod", "waiting", "--grace-period=0", "--force")


def test_a_drained_node_comes_back(bed: beds.Bed) -> None:
    """Its pods go, as does the operator; its agent stays. All cards are free then, and given again."""
    agent = [name for name in bed.pods() if name.startswith("berth-agent")]
    # A budget keeps one operator of two, and there is no other node for it.
    bed.cluster.kubectl("scale", "-n", beds.NAMESPACE, "deployment/berth-operator", "--replicas=1")
    bed.cluster.kubectl("drain", bed.worker.name, "--ignore-daemonsets", "--force", "--timeout=60s")

    assert bed.pods("default") == {}
    assert [name for name in bed.pods() if name.startswith("berth-agent")] == agent
    bed.call_back()
    bed.cluster.kubectl("uncordon", bed.worker.name)
    bed.create("train", cards=8)
    bed.until_ready(*beds.PROGRAMS)
    bed.until_ready("train", namespace="default")
    assert len(set(bed.cards("train"))) == 8


def test_what_runs_stays_when_berth_is_removed(bed: beds.Bed) -> None:
    """And so do its records."""
    bed.helm("uninstall", "--wait")
    bed.until_gone(*bed.pods())

    assert restarts(bed, "train") == [0]
    assert bed.pods("default")["train"]["status"]["phase"] == "Running"
    assert "train" in bed.cluster.kubectl("get", "gpupods", "--namespace", "default")


def test_it_comes_back_as_make_kind_installs_it(bed: beds.Bed) -> None:
    """All of that but the cluster: the chart with the values for kind, and the first pod of the README."""
    time.sleep(SECONDS_AWAY)  # In full for more than a minute, after which no fence could come back.
    bed.cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    kubeconfig = bed.cluster.admin_kubeconfig
    files = ("--values", f"{in_kind.VALUES}", "--values", f"{bed.values}")
    in_kind.install(kubeconfig, *files, "--set", f"image.tag={cached.TESTED}", namespace=beds.NAMESPACE)
    pod = in_kind.start_first_pod(kubeconfig, beds.PAUSE)

    found = bed.pods("default")[pod]
    allocation = json.loads(found["metadata"]["annotations"]["berth.dev/allocation"])
    (cards,) = (one["gpu"] for one in allocation["containers"].values())
    assert bed.cards(pod) == [card["uuid"] for card in cards]
    assert len(cards) == 2
