"""`make manifests`: the chart's version, and what it renders to, as a file for those who have no helm."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from berth_crds import names
from release import layout, sources, versions
from release.failure import CannotBuild
from testbed import binaries

CHART: Final = layout.ROOT / "manifests" / "chart"
RENDERED: Final = layout.ROOT / "manifests" / "kustomize" / "berth.yaml"
POLICIES: Final = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
HEADER: Final = "# Written by `make manifests`, from manifests/chart: edit that.\n"
HOOK: Final = "helm.sh/hook"
# In C, where PyYAML was built so: ten times faster, and the kinds are long.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

Thing = dict[str, Any]


class RenderingFailed(CannotBuild):
    """Helm has failed; the text is what it said."""


def helm(*words: str, at: Path | None = None, name: str = "helm") -> str:
    """Run helm, or that of another version, perhaps in a folder, and return what it prints."""
    program = binaries.ensure([name], tell=lambda _: None)[name]
    made = subprocess.run([program, *words], cwd=at, capture_output=True, text=True, check=False)
    if made.returncode:
        said = [line for line in made.stderr.splitlines() if not line.startswith("level=INFO ")]
        raise RenderingFailed("\n".join(said))
    return made.stdout


def render(
    *words: str,
    namespace: str = names.SYSTEM_NAMESPACE,
    policies: bool = True,
    kinds: bool = False,
    chart: Path = CHART,
    name: str = "helm",
    release: str = "berth",
) -> list[Thing]:
    """Return the objects of the chart, after its `kinds`, which are long, if they are wanted.

    A server without `policies` is of Kubernetes 1.34.
    """
    server = (
        ("--kube-version", "1.36.0", "--api-versions", POLICIES) if policies else ("--kube-version", "1.34.0")
    )
    contents = ("--include-crds",) if kinds else ()
    where = ("--namespace", namespace)
    text = helm("template", release, f"{chart}", *where, *contents, *server, *words, name=name)
    return [thing for thing in yaml.load_all(text, Loader=LOADER) if thing]


def without_helm(things: list[Thing]) -> Iterator[Thing]:
    """Yield the namespace, which helm makes by itself, and all objects but tests, without helm's marks."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}
    for thing in things:
        annotations = thing["metadata"].get("annotations", {})
        if HOOK not in annotations:
            yield _unmarked(thing)


def _unmarked(thing: Thing) -> Thing:
    """Return an object, or a template of pods, without the labels and annotations that say how it came."""
    found: Thing = {}
    for key, value in thing.items():
        if key in {"labels", "annotations"}:
            kept = {
                name: text for name, text in value.items() if name != MANAGED_BY and "helm.sh/" not in name
            }
            found |= {key: kept} if kept else {}
        else:
            found[key] = (
                _unmarked(value)
                if isinstance(value, dict) and key in {"metadata", "spec", "template"}
                else value
            )
    return found


def text(chart: Path = CHART) -> str:
    """Return the file for those who have no helm."""
    things = without_helm(render(chart=chart, kinds=True))
    return HEADER + yaml.safe_dump_all(things, sort_keys=False, width=120)


def main() -> int:
    """Write the version into the chart, and the file; or say what is wrong with the chart."""
    try:
        sources.stamp_chart(CHART, versions.of_checkout(layout.ROOT))
        Path(RENDERED).write_text(text())
    except RenderingFailed as error:
        print(f"manifests: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
