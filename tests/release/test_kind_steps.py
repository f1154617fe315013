"""What `make kind` has kind, kubectl, helm and the builder of images do, in which order, and what it says."""

import os
from pathlib import Path
from typing import Final

import pytest

from e2e import by_hand
from release import images, in_kind, layout
from testbed import binaries

# Each call is a line of a file; what kind lists stands in another, and a call that is to fail in a third.
PLAYED: Final = """#!/bin/sh
printf '%s %s\\n' "$(basename "$0")" "$*" >> "{folder}/calls"
case "$*" in
"get clusters") cat "{folder}/clusters";;
*" apply -f -") cat > "{folder}/applied";;
esac
case "$(basename "$0") $*" in $(cat "{folder}/failing")*) exit 1;; esac
"""
PROGRAMS: Final = ("kind", "kubectl", "helm")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play docker and the programs, and the building of images; return the folder of what they were told."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for file, text in (("calls", ""), ("clusters", ""), ("failing", "nothing")):
        (tmp_path / file).write_text(text)
    for name in ("docker", *PROGRAMS):
        (tools / name).write_text(PLAYED.format(folder=tmp_path))
        (tools / name).chmod(0o755)

    def build(words: list[str]) -> int:
        with (tmp_path / "calls").open("a") as calls:
            calls.write(f"images {' '.join(words[:-1])} FOLDER\n")
        for name in ("operator", "agent"):
            Path(words[-1], f"berth-{name}.tar").touch()
        return 0

    monkeypatch.setenv("PATH", os.pathsep.join([f"{tools}", os.environ["PATH"]]))
    monkeypatch.setattr(binaries, "ensure", lambda names, **_: {name: tools / name for name in names})
    monkeypatch.setattr(images, "main", build)
    monkeypatch.setattr(in_kind, "KUBECONFIG", tmp_path / "made" / "kubeconfig")
    return tmp_path


def calls(folder: Path) -> list[str]:
    """Return what was called, without places that differ from run to run."""
    lines = (folder / "calls").read_text().replace(f"{folder}", "").replace(f"{layout.ROOT}", "")
    return [line for line in lines.splitlines() if not line.startswith("docker ")]


def test_a_cluster_is_made_and_berth_is_put_on_it(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds before the chart, images before both, then the first pod; and what to look at is said."""
    assert in_kind.main(["--base", "slim"]) == 0

    kubectl = "kubectl --kubeconfig /made/kubeconfig"
    found = calls(played)
    assert found[:3] == [
        "kind get clusters",
        "kind create cluster --config /manifests/kind/cluster.yaml --kubeconfig /made/kubeconfig --wait=120s",
        "images --engine docker --base slim --archives FOLDER",
    ]
    loaded = [line for line in found if line.startswith("kind load image-archive ")]
    assert [line.rpartition("/")[2] for line in loaded] == [
        "berth-agent.tar --name berth",
        "berth-operator.tar --name berth",
    ]
    assert found[3:5] == loaded
    assert found[5] == f"{kubectl} apply --server-side --force-conflicts -f /crds"
    assert found[6].startswith("helm upgrade --install berth /manifests/chart ")
    assert found[6].endswith(" --values /manifests/kind/values.yaml")
    rollouts = [
        f"{kubectl} rollout {action} {workload} --namespace berth-system{end}"
        for workload in ("deployment/berth-operator", "daemonset/berth-agent")
        for action, end in (("restart", ""), ("status", " --timeout=2m"))
    ]
    assert found[7:11] == rollouts
    assert found[11] == f"{kubectl} apply -f -"
    assert found[12].startswith(f"{kubectl} wait --for=condition=Ready pod/")
    assert len(found) == 13
    pod = (played / "applied").read_text()
    assert pod == by_hand.first_pod().replace(by_hand.IMAGE, in_kind.PAUSE)
    said = capsys.readouterr().out
    assert f"export KUBECONFIG={played}/made/kubeconfig" in said
    assert "kubectl get devices" in said


def test_a_cluster_that_is_there_is_brought_up_to_date(
    played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not made a second time; only its kubeconfig is written anew."""
    (played / "clusters").write_text("other\nberth\n")

    assert in_kind.main([]) == 0

    found = calls(played)
    assert found[1] == "kind export kubeconfig --name berth --kubeconfig /made/kubeconfig"
    assert not any(line.startswith("kind create") for line in found)
    assert any(line.startswith("helm upgrade") for line in found)
    assert "the cluster berth is there already" in capsys.readouterr().err


def test_a_cluster_is_deleted(played: Path) -> None:
    """Ours, and nothing else is done."""
    assert in_kind.main(["--delete"]) == 0

    assert calls(played) == ["kind delete cluster --name berth"]


@pytest.mark.parametrize(
    ("failing", "sentence"),
    [
        pytest.param("kind create", "kind create failed", id="kind"),
        pytest.param("kind load", "kind load failed", id="loading"),
        pytest.param("kubectl", "kubectl --kubeconfig failed", id="kubectl"),
    ],
)
def test_what_fails_ends_it_with_one_line(
    failing: str, sentence: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is done after it, and it is not said that all is well."""
    (played / "failing").write_text(failing)

    assert in_kind.main([]) == in_kind.FAILED

    assert calls(played)[-1].startswith(failing)
    said = capsys.readouterr()
    assert said.err.endswith(f"kind: {sentence}, and has said why above.\n")
    assert said.out == ""


@pytest.mark.usefixtures("played")
def test_images_that_cannot_be_built_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the status of what builds them."""
    monkeypatch.setattr(images, "main", lambda _: 7)

    assert in_kind.main([]) == in_kind.FAILED
    assert capsys.readouterr().err.endswith("kind: The images could not be built (status 7).\n")
