"""`make kind`: a cluster in containers, with Berth on it, to try it in. `make kind-delete` removes it."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from e2e import by_hand
from release import engines, images, layout, rendering
from release.failure import CannotBuild
from testbed import binaries

ENGINES: Final = ("docker", "podman")
FOLDER: Final = layout.ROOT / "manifests" / "kind"
CONFIG: Final = FOLDER / "cluster.yaml"
VALUES: Final = FOLDER / "values.yaml"
KUBECONFIG: Final = layout.ROOT / "build" / "kind" / "kubeconfig"
NAMESPACE: Final = "berth-system"
PAUSE: Final = "registry.k8s.io/pause:3.10"
FAILED: Final = 1

NOTHING: Final = (
    "Kind needs docker or podman, and neither works here. `make demo` and `make cluster` need none."
)
WORDS: Final = """
export KUBECONFIG={kubeconfig}
export PATH={tools}:$PATH

# Two nodes with eight cards each, which are made up. The first pod of the README runs on two of them:
kubectl get devices
kubectl get gpupods
kubectl get pod {pod} -o yaml
# A pod of your own needs schedulerName: berth-scheduler. Why one waits, it says itself:
kubectl describe pod NAME
# `make kind-delete` removes all of it.
"""


class KindFailed(CannotBuild):
    """Kind or kubectl has failed, and has said why."""


def main(words: Sequence[str]) -> int:
    """Make the cluster and say what to look at, or delete it; return the exit status."""
    given = _parser().parse_args(words)
    try:
        engine = engines.find(given.engine, among=ENGINES)
        if given.delete:
            kind(engine, "delete", "cluster", "--name", name())
        else:
            create(engine)
            load(engine, given.base)
            install(KUBECONFIG, "--values", f"{VALUES}")
            restart(KUBECONFIG)
            pod = start_first_pod(KUBECONFIG, PAUSE)
            print(WORDS.format(kubeconfig=KUBECONFIG, tools=_program("kubectl").parent, pod=pod))
    except engines.NoEngine:
        print(f"kind: {NOTHING}", file=sys.stderr)
        return FAILED
    except CannotBuild as error:
        print(f"kind: {error}", file=sys.stderr)
        return FAILED
    return 0


def name() -> str:
    """Return the name of the cluster."""
    found: str = yaml.safe_load(CONFIG.read_text())["name"]
    return found


def create(engine: engines.Engine) -> None:
    """Make the cluster, unless it is there already."""
    KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
    if name() in kind(engine, "get", "clusters").split():
        _tell(f"the cluster {name()} is there already; it gets what has changed since")
        kind(engine, "export", "kubeconfig", "--name", name(), "--kubeconfig", f"{KUBECONFIG}")
        return
    _tell("making a cluster of three nodes, which takes a minute or two")
    kind(engine, "create", "cluster", "--config", f"{CONFIG}", "--kubeconfig", f"{KUBECONFIG}", "--wait=120s")


def load(engine: engines.Engine, base: str) -> None:
    """Build the images, and load them into the nodes."""
    with tempfile.TemporaryDirectory(prefix="berth-kind-") as archives:
        if status := images.main(["--engine", engine.name, "--base", base, "--archives", archives]):
            raise KindFailed(f"The images could not be built (status {status}).")
        for archive in sorted(Path(archives).iterdir()):
            _tell(f"loading {archive.name} into the nodes")
            kind(engine, "load", "image-archive", f"{archive}", "--name", name())


def install(kubeconfig: Path, *words: str, namespace: str = NAMESPACE) -> None:
    """Install Berth with its chart, or bring it to what the checkout says now, and wait until it runs."""
    kubectl(kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", f"{layout.ROOT / 'crds'}")
    _tell("installing Berth, until its pods are ready")
    rendering.helm(
        *("upgrade", "--install", "berth", f"{rendering.CHART}", "--kubeconfig", f"{kubeconfig}"),
        *("--namespace", namespace, "--create-namespace", "--wait", "--timeout", "5m", *words),
    )


def restart(kubeconfig: Path) -> None:
    """Have pods that ran before run from the images that were loaded, whose name is the same."""
    for workload in ("deployment/berth-operator", "daemonset/berth-agent"):
        kubectl(kubeconfig, "rollout", "restart", workload, "--namespace", NAMESPACE)
        kubectl(kubeconfig, "rollout", "status", workload, "--namespace", NAMESPACE, "--timeout=2m")


def start_first_pod(kubeconfig: Path, image: str) -> str:
    """Start the README's first pod, with an image that does nothing; return its name when it runs."""
    text = by_hand.first_pod().replace(by_hand.IMAGE, image)
    pod: str = yaml.safe_load(text)["metadata"]["name"]
    kubectl(kubeconfig, "apply", "-f", "-", stdin=text)
    kubectl(kubeconfig, "wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
    _tell(f"the pod {pod} runs")
    return pod


def kind(engine: engines.Engine, *words: str) -> str:
    """Run kind with an engine, its progress on the terminal, and return what it prints."""
    environment = {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": engine.name}
    return _run(_program("kind"), *words, environment=environment)


def kubectl(kubeconfig: Path, *words: str, stdin: str = "") -> str:
    """Run kubectl, and return what it prints."""
    return _run(_program("kubectl"), "--kubeconfig", f"{kubeconfig}", *words, stdin=stdin)


def _run(program: Path, *words: str, stdin: str = "", environment: dict[str, str] | None = None) -> str:
    made = subprocess.run(
        [program, *words], input=stdin, stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if made.returncode:
        raise KindFailed(f"{program.name} {words[0]} failed, and has said why above.")
    return made.stdout


def _program(which: str) -> Path:
    return binaries.ensure([which], tell=_tell_unless_found)[which]


def _tell_unless_found(sentence: str) -> None:
    if not sentence.startswith("using "):
        _tell(sentence)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make kind", description=__doc__)
    parser.add_argument(
        "--delete", action="store_true", help="remove the cluster, as `make kind-delete` does"
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="",
        help=f"what runs the containers: {' or '.join(ENGINES)} (default: the first that works)",
    )
    parser.add_argument("--base", metavar="IMAGE", default=images.BASE, help="as for `make images`")
    return parser


def _tell(sentence: str) -> None:
    print(f"kind: {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
