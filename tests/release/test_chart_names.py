"""The chart under odd names, and on clusters that are too old: YAML would read some names as another type."""

import functools
import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from release import rendering

pytestmark = pytest.mark.cluster

# What YAML 1.1 or 1.2 takes for truth, nothing, a number or a day, and names that contain our usual one.
ODD: Final = (
    "y",
    "on",
    "true",
    "null",
    "123",
    "1e3",
    "0x10",
    "2026-01-01",
    "berth-system-2",
    "my-berth-system",
)
EVERYTHING: Final = Path(__file__).with_name("everything.yaml")
PLACEHOLDER: Final = "place-of-a-name"


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("policies", [True, False], ids=["1.36", "1.34"])
def test_any_name_of_a_namespace_a_release_and_a_scheduler_is_one(name: str, *, policies: bool) -> None:
    """The chart renders to what it renders to under other names, with this one in their place."""
    usual = everything(PLACEHOLDER, policies=policies)

    things = everything(name, policies=policies)

    assert things == json.loads(json.dumps(usual).replace(PLACEHOLDER, name))
    (pod,) = [thing for thing in things if thing["kind"] == "Pod"]
    assert pod["metadata"]["namespace"] == pod["spec"]["schedulerName"] == name
    assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == name


def test_everything_is_switched_on() -> None:
    """Each value of the chart that is `false` as it comes, and each that is 0."""
    chart = yaml.safe_load((rendering.CHART / "values.yaml").read_text())
    given = yaml.safe_load(EVERYTHING.read_text())

    assert {path for path, value in scalars(given) if value is True or path == "priorityQuota"} == {
        path for path, value in scalars(chart) if value in (False, 0) and "securityContext" not in path
    }


def test_a_cluster_that_is_too_old_is_refused() -> None:
    """By a sentence with both versions; the oldest that is served gets everything."""
    with pytest.raises(rendering.RenderingFailed) as refused:
        rendering.render("--kube-version", "1.31.14")

    assert "chart requires kubeVersion: >=1.32.0-0 which is incompatible with Kubernetes v1.31.14" in str(
        refused.value
    )
    oldest = rendering.render(policies=False)
    assert rendering.render("--kube-version", "1.32.0", policies=False) == oldest
    assert rendering.render("--kube-version", "1.32.1-gke.100", policies=False) == oldest


@functools.cache
def everything(name: str, *, policies: bool) -> list[rendering.Thing]:
    """Return all that the chart can render to, with one name for namespace, release and scheduler."""
    words = ("--values", f"{EVERYTHING}", "--set-string", f"schedulerNames={{{name}}}")
    return rendering.render(*words, namespace=name, release=name, policies=policies)


def scalars(values: dict[str, object], before: str = "") -> list[tuple[str, object]]:
    """Return the values that are no list and no mapping, each with its path."""
    found: list[tuple[str, object]] = []
    for key, value in values.items():
        path = f"{before}{key}"
        if isinstance(value, dict):
            found += scalars(value, f"{path}.")
        else:
            found += [(path, value)] if not isinstance(value, list) else []
    return found
