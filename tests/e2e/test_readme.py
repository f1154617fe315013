"""The commands and examples of the README and of the page for developers, run as they stand there."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e import by_hand, fleet
from support import kubelet
from testbed import cluster as clusters
from testbed import lending, processes

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = (ROOT / "README.md").read_text()
DEVELOPING: Final = (ROOT / "manifests" / "developing.md").read_text()
BY_HAND: Final = "On an existing cluster, from the checkout"
NODE: Final = "readme-node"


def blocks(language: str, *, after: str, page: str = README) -> list[str]:
    """Return the code blocks of a section."""
    section = page.split(f"\n## {after}\n")[1].split("\n## ", maxsplit=1)[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Start a cluster that nobody has prepared."""
    yield from lending.lend(clusters.Cluster(), request.config)


@pytest.fixture
async def kubelets(base: clusters.Cluster) -> AsyncIterator[kubelet.Kubelets]:
    """Play the kubelet of one node."""
    async with kubelet.Kubelets(base) as playing:
        await playing.add(kubelet.FakeNode(NODE))
        yield playing


def checkout(place: Path) -> Path:
    """Make a folder that looks like the checkout, without writing into the real one."""
    for name in ("crds", "manifests"):
        (place / name).symlink_to(ROOT / name)
    (place / ".venv" / "bin").mkdir(parents=True)
    for program in ("berth-operator", "berth-agent"):
        module = program.replace("-", "_")
        wrapper = place / ".venv" / "bin" / program
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        wrapper.chmod(0o755)
    return place


@pytest.mark.slow
@pytest.mark.usefixtures("kubelets")
async def test_an_existing_cluster_is_set_up_by_the_commands_for_developers(
    base: clusters.Cluster, tmp_path: Path
) -> None:
    """Whoever follows that section word by word gets the README's example pod placed."""
    # Given the commands of that section, but for `make setup`, which has run: it made this interpreter
    shell = base.shell() | {"NODE": NODE}
    place = checkout(tmp_path)
    install, accounts, operator, agent = blocks("sh", after=BY_HAND, page=DEVELOPING)
    for script in (install, accounts.replace("make setup\n", "")):
        words = ["bash", "-euc", script]
        await asyncio.to_thread(subprocess.run, words, cwd=place, env=shell, check=True)

    # When both programs run as it says, and the pod of the first page is created
    started = [run(command, place, shell, at) for at, command in enumerate((operator, agent))]
    try:
        await asyncio.to_thread(fleet.Fleet(base).until_ready, NODE)
        where = ("-n", base.namespace("readme"))
        base.kubectl("apply", *where, "-f", "-", stdin=by_hand.first_pod())

        # Then it runs on that node, with two cards of its own
        bound = ("--for=condition=PodScheduled", "pod/train", "--timeout=20s")
        await asyncio.to_thread(base.kubectl, *where, "wait", *bound)
        pod = json.loads(base.kubectl(*where, "get", "pod", "train", "-o", "json"))
        assert pod["spec"]["nodeName"] == NODE
        assert pod["metadata"]["annotations"]["berth.dev/minors"] == "0,1"
    finally:
        for program in started:
            program.stop(grace=10)


def run(command: str, place: Path, shell: dict[str, str], at: int) -> processes.Program:
    """Start one of the README's programs."""
    words = ["bash", "-c", f"cd {place} && exec {command.strip()}"]
    return processes.start(f"readme-{at}", words, log=place / f"{at}.log", env=shell)


KUBECTL: Final = """\
#!/bin/sh
echo "$@" >> calls
case "$*" in
*"create token"*) test -n "$TOKENS" && echo "$TOKENS" ;;
*) echo here ;;
esac
"""


@pytest.mark.parametrize(
    ("variables", "made", "said"),
    [
        pytest.param({"TOKENS": "t"}, ["operator"], "NODE: must name the Node", id="no NODE"),
        pytest.param({"NODE": NODE}, [], "", id="no token"),
        pytest.param({"NODE": NODE, "TOKENS": "t"}, ["operator", "agent"], "", id="all is well"),
    ],
)
def test_a_kubeconfig_without_a_token_is_never_written(
    tmp_path: Path, variables: dict[str, str], made: list[str], said: str
) -> None:
    """Where the node is not named, or no token can be had, the commands end and write no empty user."""
    # Given a kubectl that tells what it is asked, and the commands but for `make setup`
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    _, accounts, *_ = blocks("sh", after=BY_HAND, page=DEVELOPING)
    kept = {key: text for key, text in os.environ.items() if key not in {"NODE", "TOKENS"}}
    shell = kept | {"PATH": f"{tmp_path}:{kept['PATH']}"} | variables

    # When they run
    script = accounts.replace("make setup\n", "")
    words = ["bash", "-c", script]
    ended = subprocess.run(words, cwd=tmp_path, env=shell, check=False, capture_output=True, text=True)

    # Then users are written for those who have a token alone
    calls = (tmp_path / "calls").read_text().splitlines()
    written = [call.split("set-credentials ")[1] for call in calls if "set-credentials" in call]
    assert written == [f"berth-{who} --token t" for who in made]
    assert said in ended.stderr
    assert bool(said) == bool(ended.returncode)


def test_the_environment_snippet_is_accepted_by_the_server(
    base: clusters.Cluster,
) -> None:
    """The env entry that feeds a container from the annotation is one that the API server takes."""
    # Given the snippet of "What a pod may say"
    (snippet,) = blocks("yaml", after="What a pod may say")

    # When a pod with it is created
    container = {"name": "main", "image": "example.com/x", **yaml.safe_load(snippet)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "env"},
        "spec": {"containers": [container]},
    }
    namespace = base.namespace("readme-env")
    base.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))

    # Then the server keeps it as it is
    path = "{.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath}"
    kept = base.kubectl("get", "pod", "env", "-n", namespace, "-o", f"jsonpath={path}")
    assert kept == "metadata.annotations['main.devices.berth.dev/uuids']"


def test_the_table_of_folders_names_folders_that_exist() -> None:
    """Every folder and file that the README points to is there."""
    # Given the paths in the README's table of folders
    section = README.split("\n## The parts\n")[1].split("\n## ")[0]
    paths = re.findall(r"`((?:crds|operator|agent|manifests|tests)/[^`]*)`", section)

    # Then each exists
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
