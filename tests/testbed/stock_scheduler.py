"""The stock scheduler beside a cluster, with its default profile."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from testbed import binaries
from testbed.cluster import Cluster


def command(cluster: Cluster, *, settings: Mapping[str, Any] | None = None, **client: int) -> list[str]:
    """Return how kube-scheduler is started.

    `client` are the settings of its connection, such as `qps`; `settings` are more of its configuration.
    """
    account = cluster.component_kubeconfig("kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(account), **client},
        "leaderElection": {"leaderElect": False},
        **(settings or {}),
    }
    path: Path = cluster.directory / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    program = binaries.ensure(["kube-scheduler"])["kube-scheduler"]
    same = (f"--authentication-kubeconfig={account}", f"--authorization-kubeconfig={account}")
    return [str(program), f"--config={path}", *same, "--secure-port=0"]
