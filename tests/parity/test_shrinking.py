"""A difference is told by the smallest manifests that still show it."""

from pathlib import Path
from typing import Any

import pytest

from parity import __main__ as program
from parity import comparing, corpus, drawing, own, scenes, shrinking, stock
from parity.dice import Dice
from parity.resource_drawing import container
from parity.scenes import Answer, Cluster, Object, Question


def node(name: str, **labels: str) -> Object:
    """Return a node with labels."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"pods": "9", "cpu": "9"}},
    }


def pod(name: str, **spec: Any) -> Object:
    """Return a pod of one container."""
    spec = {"schedulerName": scenes.SCHEDULER, "containers": [container("c0")], **spec}
    return {"metadata": {"name": name, "namespace": "parity-a", "labels": {"app": "web"}}, "spec": spec}


class Oracle(stock.Stock):
    """A scheduler that refuses the nodes of one label, and answers without a server."""

    def __init__(self, refused: str) -> None:
        self._refused = refused
        self._nodes: tuple[Object, ...] = ()

    async def load(self, cluster: Cluster) -> Cluster:
        """Keep the nodes."""
        question = corpus.with_identities(Question(cluster, pod("none")))
        self._nodes = question.cluster.nodes
        return question.cluster

    async def ask(self, pods: Any) -> list[stock.Asked | None]:
        """Return all nodes without the label."""
        passed = (one for one in self._nodes if self._refused not in one["metadata"].get("labels", {}))
        answer = Answer(frozenset(one["metadata"]["name"] for one in passed))
        identified = (corpus.with_identities(Question(Cluster(()), one)).pod for one in pods)
        return [stock.Asked(one, answer) for one in identified]


async def test_only_what_makes_the_difference_is_left() -> None:
    """Nodes, pods, fields and items go, as long as the difference stays."""
    ports = [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 2}]
    cluster = Cluster(
        tuple(node(f"node-{at}", zone="a", rack="r1") for at in range(5)),
        tuple(pod(f"bound-{at}", nodeName=f"node-{at}", hostNetwork=True) for at in range(5)),
    )
    asking = pod("asking", containers=[container("c0", ports=ports), container("c1")], os={"name": "linux"})

    async def differs(question: Question) -> bool:
        labelled = any("rack" in one["metadata"].get("labels", ()) for one in question.cluster.nodes)
        asked = [port for one in question.pod["spec"].get("containers", ()) for port in one.get("ports", ())]
        return labelled and any(port.get("hostPort") == 2 for port in asked)

    found = await shrinking.shrink(Question(cluster, asking), differs)

    assert [one["metadata"]["labels"] for one in found.cluster.nodes] == [{"rack": "r1"}]
    assert found.cluster.pods == ()
    assert found.pod["spec"]["containers"] == [container("c0", ports=[{"hostPort": 2}])]
    assert set(found.pod["spec"]) == {"schedulerName", "containers"}


async def test_a_difference_is_counted_shrunk_and_written(tmp_path: Path) -> None:
    """What differs makes a case with the answer of kube-scheduler, of one node and no pod."""
    run = program.Run(Oracle("disk"), 1, tmp_path)

    await run.cluster(0, 3)

    (case, *_) = [corpus.read(path) for path in corpus.files(tmp_path)]
    assert run.tally.differing > 0
    assert case.stock == Answer()
    assert len(case.question.cluster.nodes) == 1
    assert [*case.question.cluster.nodes[0]["metadata"]["labels"]] == ["disk"]
    assert case.question.cluster.pods == ()


async def test_what_is_not_there_any_more_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference that does not come again is counted apart."""
    run, oracle = program.Run(Oracle("disk"), 1, tmp_path), Oracle("no such label")
    compare_one = comparing.compare_one
    monkeypatch.setattr(comparing, "compare_one", lambda _, question: compare_one(oracle, question))
    monkeypatch.setattr(own.Berth, "answer", lambda berth, _: Answer(frozenset(berth.ledger.inventory.index)))

    await run.cluster(0, 3)

    assert (run.tally.differing, run.tally.not_repeated) == (0, 3)
    assert not corpus.files(tmp_path)


async def test_what_berth_does_not_serve_is_left_out(tmp_path: Path) -> None:
    """A pod that Berth refuses because it does not serve a field is named by the field, and no difference."""
    run = program.Run(Oracle("none"), 1, tmp_path)
    asking = pod("asking", resourceClaims=[{"name": "claim"}])

    found = await comparing.compare_one(Oracle("none"), Question(Cluster((node("node-0"),)), asking))
    assert found is not None
    run.tally.add(found)

    assert not found.differs
    assert "       1  the pod uses resource claims" in list(run.tally.lines())


def test_another_operating_system_is_refused_on_purpose() -> None:
    """Kube-scheduler does not read a pod's operating system, but the kubelet does: so does Berth."""
    cluster = Cluster(
        (node("lin", **{scenes.OS_LABEL: "linux"}), node("win", **{scenes.OS_LABEL: "windows"}))
    )
    question = corpus.with_identities(Question(cluster, pod("asking", os={"name": "windows"})))

    found = own.Berth(question.cluster).answer(question.pod)

    everywhere = Answer(frozenset({"lin", "win"}))
    assert found == scenes.expected(everywhere, question) == Answer(frozenset({"win"}))


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Nothing of a case is lost in its file."""
    cluster = drawing.cluster(Dice("written"), "ports")
    (asking,) = drawing.asking(Dice("written"), cluster, 1, "ports")
    case = corpus.Case("about", Question(cluster, asking), Answer(frozenset({"node-0"})))

    corpus.write(tmp_path / "case.yaml", case)

    assert corpus.read(tmp_path / "case.yaml") == case


@pytest.mark.parametrize("seed", ["one", "another"])
def test_a_seed_draws_the_same_again(seed: str) -> None:
    """Clusters and pods follow from the seed alone."""
    first, second = (drawing.cluster(Dice(seed), "") for _ in range(2))

    assert first == second
