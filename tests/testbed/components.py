"""The command lines of a control plane: which program runs with which options, and why.

Nothing is started here; these functions only turn files and ports into words. Where an option differs from
a production cluster the reason stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import audit, pki

ISSUER = "https://kubernetes.default.svc.cluster.local"

# These two call a node lost when nobody renews its Lease. The nodes of tests have no kubelet, and would all
# be lost.
NOT_FOR_FAKE_NODES = ("node-lifecycle-controller", "taint-eviction-controller")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one cluster."""

    apiserver: int
    etcd: int
    etcd_peer: int


@dataclass(frozen=True, slots=True)
class Site:
    """What every component is told: where the files are, which ports are ours, and which programs."""

    directory: Path
    ports: Ports
    programs: Mapping[str, Path]

    @property
    def audit_log(self) -> Path:
        """The file that the API server writes one line into for each write."""
        return self.directory / "audit.log"


def etcd(site: Site) -> list[str]:
    """Return the command of etcd: one member, plain HTTP on the loopback interface."""
    client = f"http://127.0.0.1:{site.ports.etcd}"
    peer = f"http://127.0.0.1:{site.ports.etcd_peer}"
    return [
        str(site.programs["etcd"]),
        "--name=testbed",
        f"--data-dir={site.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=testbed={peer}",
        "--unsafe-no-fsync",  # The data is thrown away; waiting for the disk would only cost time.
        "--socket-reuse-port",  # The port is reserved by a socket of ours.
        "--log-level=warn",
    ]


def apiserver(site: Site, *, serving: pki.Pair, signing_key: Path, extra: Sequence[str]) -> list[str]:
    """Return the command of the API server; the last of two equal options wins, so `extra` overrides."""
    policy = site.directory / "audit-policy.yaml"
    policy.write_text(audit.POLICY)
    return [
        str(site.programs["kube-apiserver"]),
        f"--etcd-servers=http://127.0.0.1:{site.ports.etcd}",
        "--bind-address=127.0.0.1",
        # Without it the server looks for a default route, which a machine without network has not.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # A loopback address may be no endpoint, and nobody asks for it.
        f"--secure-port={site.ports.apiserver}",
        "--permit-port-sharing",  # The port is reserved by a socket of ours.
        f"--cert-dir={site.directory}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={site.directory / 'ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={signing_key}",
        f"--service-account-signing-key-file={signing_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={site.directory / 'admin.crt'}",
        f"--kubelet-client-key={site.directory / 'admin.key'}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={site.audit_log}",
        "--audit-log-maxsize=10000",  # Megabytes, so that no log rotates in the middle of a test.
        *extra,
    ]


def controller_manager(site: Site, *, kubeconfig: Path, signing_key: Path) -> list[str]:
    """Return the command of the controller manager, for nodes that nobody keeps alive."""
    switches = ["*", *(f"-{controller}" for controller in NOT_FOR_FAKE_NODES)]
    return [
        str(site.programs["kube-controller-manager"]),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",  # It has no peers,
        "--secure-port=0",  # and nobody asks it anything.
        f"--controllers={','.join(switches)}",
        f"--service-account-private-key-file={signing_key}",
        f"--root-ca-file={site.directory / 'ca.crt'}",
        "--use-service-account-credentials",
    ]
