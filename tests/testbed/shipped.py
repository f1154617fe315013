"""Installs what the project ships, as a user would."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed import cluster

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = ROOT / "manifests"


def install_kinds(testbed: cluster.Cluster) -> None:
    """Apply the kinds, and wait until the server knows them."""
    testbed.apply(ROOT / "crds")
    testbed.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")


def install(testbed: cluster.Cluster, *, without: Sequence[str] = ()) -> None:
    """Apply the kinds, and all manifests but some files."""
    install_kinds(testbed)
    testbed.apply(*(path for path in sorted(MANIFESTS.glob("*.yaml")) if path.name not in without))
