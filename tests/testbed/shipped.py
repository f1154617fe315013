"""Installs what the project ships, as a user would."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed import cluster, waiting

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = ROOT / "manifests"
KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_kinds(testbed: cluster.Cluster) -> None:
    """Apply the kinds, and wait until the server knows them."""
    testbed.apply(ROOT / "crds")
    waiting.until(lambda: _are_established(testbed), what="the kinds to be known to the server", seconds=30)


def _are_established(testbed: cluster.Cluster) -> bool:
    # `kubectl wait` fails at once on a kind that has no conditions yet, as each has for a moment.
    kinds = testbed.read(KINDS)["items"]
    return bool(kinds) and all(
        any(
            (condition["type"], condition["status"]) == ("Established", "True")
            for condition in kind["status"]["conditions"] or ()
        )
        for kind in kinds
    )


def install(testbed: cluster.Cluster, *, without: Sequence[str] = ()) -> None:
    """Apply the kinds, and all manifests but some files."""
    install_kinds(testbed)
    testbed.apply(*(path for path in sorted(MANIFESTS.glob("*.yaml")) if path.name not in without))
