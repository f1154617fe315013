"""What the page on installing says of a chart at an address, and of other images without helm."""

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from release import layout, rendering, versions
from testbed import binaries

pytestmark = pytest.mark.cluster

PAGE: Final = (layout.ROOT / "manifests" / "installing.md").read_text()
ADDRESS: Final = "https://example.com/files"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and writes no line for each file."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve the packaged chart; yield the address of its folder."""
    rendering.helm("package", f"{rendering.CHART}", "--destination", f"{tmp_path}")
    handler = functools.partial(QuietHandler, directory=f"{tmp_path}")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_helm_takes_the_chart_from_an_address(address: str) -> None:
    """By the command of the page, it is the chart of the checkout."""
    (command,) = re.findall(rf"^helm install (.*{ADDRESS}.*)$", PAGE, re.MULTILINE)
    words = command.replace(ADDRESS, address).replace("VERSION", versions.of_checkout(layout.ROOT)).split()

    found = rendering.helm("template", *words)

    usual = rendering.helm("template", "berth", f"{rendering.CHART}", "--namespace", "berth-system")
    assert list(yaml.safe_load_all(found)) == list(yaml.safe_load_all(usual))


def test_kustomize_names_other_images(tmp_path: Path) -> None:
    """Those of both programs, in the version that the file names, and nothing else changes."""
    (example,) = re.findall(r"^```yaml\n(resources:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(example)
    shutil.copy(rendering.RENDERED, tmp_path)
    kubectl = binaries.ensure(["kubectl"], tell=lambda _: None)["kubectl"]

    made = subprocess.run(
        [kubectl, "kustomize", f"{tmp_path}"], capture_output=True, text=True, check=True
    ).stdout

    elsewhere = rendering.RENDERED.read_text().replace(
        "image: localhost/", "image: registry.example.com/berth/"
    )
    assert elsewhere.count("registry.example.com/berth/berth-") == 2
    assert by_name(made) == by_name(elsewhere)


def by_name(text: str) -> dict[str, rendering.Thing]:
    """Return the objects of a text, by kind, namespace and name."""
    things = [thing for thing in yaml.load_all(text, Loader=rendering.LOADER) if thing]
    return {
        f"{thing['kind']} {thing['metadata'].get('namespace', '')} {thing['metadata']['name']}": thing
        for thing in things
    }
