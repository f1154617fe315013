"""A Kubernetes cluster without nodes: etcd, the API server and the controller manager, for one test run.

    with cluster.Cluster() as testbed:
        namespace = testbed.namespace("demo")
        testbed.kubectl("-n", namespace, "get", "pods")

It is a real one: TLS, RBAC, service accounts with bound tokens, admission, an audit log. What it lacks is
machines: nodes are objects that tests make, and `support.kubelet` plays what should run on them. Two can
run side by side; each has its own ports, its own authority and its own temporary directory, and leaves none
of them behind (see `processes`).
"""

import contextlib
import dataclasses
import functools
import http.client
import itertools
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed import api, audit, binaries, components, kubeconfig, pki, ports, processes, supervision, waiting

PREFIX = "berth-testbed-"
READY_SECONDS = 60.0
GRACE_SECONDS = 2.0
TOKEN_SECONDS = round(pki.LIFETIME.total_seconds())  # No longer than the certificates.


class KubectlFailed(Exception):
    """Kubectl ended with an error; the message is what it said."""


class Cluster:
    """One control plane; use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self,
        *,
        controller_manager: bool = True,
        apiserver_args: Sequence[str] = (),
        tell: Callable[[str], None] = binaries.tell,
    ) -> None:
        """Choose the components; nothing happens before `start`."""
        self._controller_manager = controller_manager
        self._apiserver_args = tuple(apiserver_args)
        self._tell = tell
        self._running: dict[str, processes.Program] = {}
        self._cleanups = contextlib.ExitStack()
        self._serving: pki.Pair
        self.admin: pki.Pair

    def __enter__(self) -> Self:
        """Start the cluster."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the cluster, whatever happened."""
        self.stop()

    # Its life.

    def start(self) -> None:
        """Get the binaries, start everything, and return when the API server is ready."""
        optional = ["kube-controller-manager"] if self._controller_manager else []
        programs = binaries.ensure(["etcd", "kube-apiserver", "kubectl", *optional], tell=self._tell)
        try:
            self._prepare(programs)
            self._start_programs()
        except BaseException:
            self.stop()
            raise
        self._tell(f"API server {self.server} is ready, files in {self.directory}")

    def stop(self) -> None:
        """Stop every program, clients before servers, and remove the directory; safe to call twice."""
        self._cleanups.close()

    def crash_apiserver(self) -> None:
        """Kill the API server as a power cut would; `restart_apiserver` brings it back."""
        self._running.pop("kube-apiserver").kill()

    def restart_apiserver(self) -> None:
        """Stop the API server if it runs, start it again on the same port, and wait until it is ready."""
        self._stop("kube-apiserver")
        self._start_apiserver()

    def start_another_apiserver(self, *, port: int, etcd_port: int) -> processes.Program:
        """Start a second API server on the same data, and wait until it is ready."""
        own = components.Ports(apiserver=port, etcd=etcd_port, etcd_peer=0)
        log = f"--audit-log-path={self.directory / f'audit-{port}.log'}"
        command = self._apiserver(dataclasses.replace(self._site, ports=own), log)
        program = self._launch(f"kube-apiserver-{port}", command)
        _wait_until_ready(self._administrator(port), program)
        return program

    def expire_history(self) -> None:
        """Make the server answer 410 to every list and watch that wants to go on from an earlier revision.

        Compaction alone does not do it: the API server serves recent revisions out of its own memory. A
        restarted one knows nothing older than its start, and etcd cannot help it any more.
        """
        etcd = api.Api(port=self._site.ports.etcd)
        revision = int(etcd.post("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        etcd.post("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.restart_apiserver()

    def copy_etcd(self) -> Path:
        """Copy the data of etcd as they are now, as a backup does; return where the copy is."""
        etcd, copy = self._running["etcd"].process, self.directory / f"etcd-{secrets.token_hex(3)}"
        etcd.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.directory / "etcd", copy)
        finally:
            etcd.send_signal(signal.SIGCONT)
        return copy

    def restore_etcd(self, copy: Path) -> None:
        """Put a copy in the place of the server's data, with all servers stopped meanwhile."""
        self._running.pop("kube-apiserver").kill()
        self._running.pop("etcd").kill()
        shutil.rmtree(self.directory / "etcd")
        copy.rename(self.directory / "etcd")
        self._start("etcd", components.etcd(self._site))
        self._start_apiserver()

    # Where it is.

    @property
    def directory(self) -> Path:
        """The temporary directory with all files of the cluster."""
        return self._site.directory

    @property
    def port(self) -> int:
        """The port of the API server on 127.0.0.1."""
        return self._site.ports.apiserver

    @property
    def etcd_port(self) -> int:
        """The port of etcd on 127.0.0.1."""
        return self._site.ports.etcd

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def serving(self) -> pki.Pair:
        """Return the API server's own certificate, for a proxy that stands in its place."""
        return self._serving

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the API server."""
        return self.directory / "ca.crt"

    @property
    def endpoint(self) -> kubeconfig.Endpoint:
        """Where the API server is, and who vouches for it."""
        return kubeconfig.Endpoint(server=self.server, ca_file=self.ca_file)

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig that may do everything."""
        return self.directory / "admin.kubeconfig"

    # What tests do with it.

    def shell(self) -> dict[str, str]:
        """Return what an administrator has in the shell: kubectl, and a kubeconfig."""
        tools = self._site.programs["kubectl"].parent
        return {
            **os.environ,
            "PATH": os.pathsep.join([f"{tools}", os.environ["PATH"]]),
            "KUBECONFIG": f"{self.admin_kubeconfig}",
            "KUBECACHEDIR": f"{self.directory / 'kubectl'}",
        }

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run the real kubectl as the administrator and return what it prints."""
        command = [str(self._site.programs["kubectl"]), f"--cache-dir={self.directory / 'kubectl'}", *words]
        environment = os.environ | {"KUBECONFIG": str(self.admin_kubeconfig)}
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=environment, check=False
        )
        if result.returncode:
            message = f"kubectl {' '.join(words)}: {result.stderr.strip() or result.stdout.strip()}"
            raise KubectlFailed(message)
        return result.stdout

    def read(self, path: str) -> Any:
        """Return what lies at a path of the API; None if nothing does. It costs far less than kubectl."""
        try:
            return json.loads(self._api.get(path))
        except api.ApiError as error:
            if error.code != http.client.NOT_FOUND:
                raise
            return None

    def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send an object as the administrator; raise `ApiError` with the server's words."""
        return self._api.send(method, path, body)

    def patch(self, path: str, change: dict[str, Any]) -> None:
        """Change an object as the administrator, by a merge patch."""
        self._api.send("PATCH", path, change, {"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str) -> None:
        """Delete an object as the administrator."""
        self._api.send("DELETE", path, {})

    def objection(self, path: str, body: dict[str, Any], account: str = "") -> str:
        """Return what the server says against an object, of an account with every right; empty if nothing."""
        acting = {"Impersonate-User": account, "Impersonate-Group": "system:masters"} if account else {}
        try:
            self._api.send("POST", f"{path}?dryRun=All", body, acting)
        except api.ApiError as error:
            return str(error)
        return ""

    def read_node(self, name: str) -> Any:
        """Return a Node; None if it is not there."""
        return self.read(f"/api/v1/nodes/{name}")

    def apply(self, *sources: Path | str) -> None:
        """Apply files or directories (given as paths) and YAML (given as text), in this order."""
        # Server-side: for a big CRD, what the client would remember is more than an annotation may hold.
        apply = functools.partial(self.kubectl, "apply", "--server-side", "--force-conflicts")
        for are_paths, some in itertools.groupby(sources, key=lambda source: isinstance(source, Path)):
            if are_paths:
                apply(*(f"--filename={path}" for path in some))
            else:
                apply("--filename=-", stdin="\n---\n".join(map(str, some)))

    def namespace(self, prefix: str = "test") -> str:
        """Create a fresh namespace, ready for pods."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        self._api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        # Admission refuses pods until this account exists, and the controller manager may take its time.
        self.service_account(name, "default")
        return name

    def service_account(self, namespace: str, name: str) -> str:
        """Make sure that a service account exists; return the user name that RBAC and the audit log know."""
        self._api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        return f"system:serviceaccount:{namespace}:{name}"

    def token(self, namespace: str, service_account: str, *, node: str = "") -> str:
        """Return a fresh bound token of a service account, as a pod would be given one; perhaps on a node."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        bound = {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": node}} if node else {}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS, **bound},
        }
        return str(self._api.post(path, body)["status"]["token"])

    def kubeconfig_for(self, namespace: str, service_account: str, *, server: str | None = None) -> Path:
        """Write a kubeconfig of a service account; `server` lets it go through a proxy."""
        user = kubeconfig.token(self.token(namespace, service_account))
        return self._kubeconfig(f"{namespace}-{service_account}", {"testbed": user}, namespace, server)

    def kubeconfig_by_node(self, namespace: str, service_account: str, nodes: Sequence[str]) -> Path:
        """Write a kubeconfig with a context for each node, whose token is one of a pod on that node."""
        users = {node: kubeconfig.token(self.token(namespace, service_account, node=node)) for node in nodes}
        return self._kubeconfig(f"{namespace}-{service_account}", users)

    def component_kubeconfig(self, name: str, group: str | None = None) -> Path:
        """Write the kubeconfig of a component, whose rights come with the server's own RBAC roles."""
        file = name.replace(":", "-")
        client = self._authority.client(f"system:{name}", file=file, group=group)
        return self._kubeconfig(file, {"testbed": kubeconfig.certificate(client)})

    def pid(self, name: str) -> int:
        """Return the process id of etcd or of the API server, for what it costs."""
        return self._running[name].process.pid

    def audit(self) -> list[audit.AuditEvent]:
        """Return every write that the API server has finished, in the order of its log."""
        return self._audit.events()

    # How it starts.

    def _prepare(self, programs: dict[str, Path]) -> None:
        """Make the directory, the ports, the certificates and the administrator."""
        directory = processes.OwnedDirectory(PREFIX)
        self._cleanups.callback(directory.remove)
        self._site = components.Site(directory=directory.path, ports=self._reserve(), programs=programs)
        self._audit = audit.Log(self._site.audit_log)
        self._authority = pki.Authority(self.directory)
        self._serving = self._authority.server("kube-apiserver")
        self._signing_key = self._authority.signing_key("service-accounts")
        self.admin = self._authority.client("testbed-admin", file="admin", group="system:masters")
        admin = {"testbed": kubeconfig.certificate(self.admin)}
        kubeconfig.write(self.admin_kubeconfig, self.endpoint, admin)
        self._api = self._administrator(self.port)

    def _administrator(self, port: int) -> api.Api:
        tls = ssl.create_default_context(cafile=str(self.ca_file))
        tls.load_cert_chain(self.admin.certificate, self.admin.key)
        return api.Api(port=port, tls=tls)

    def _reserve(self) -> components.Ports:
        reserved = [ports.Reservation() for _ in range(3)]
        for reservation in reserved:
            self._cleanups.callback(reservation.release)
        apiserver, etcd, etcd_peer = (reservation.port for reservation in reserved)
        return components.Ports(apiserver=apiserver, etcd=etcd, etcd_peer=etcd_peer)

    def _start_programs(self) -> None:
        for name in ("etcd", "kube-apiserver"):  # They are stopped in the opposite order.
            self._cleanups.callback(self._stop, name)
        self._start("etcd", components.etcd(self._site))
        self._start_apiserver()
        if self._controller_manager:
            config = self.component_kubeconfig("kube-controller-manager")
            command = components.controller_manager(
                self._site, kubeconfig=config, signing_key=self._signing_key
            )
            # Nobody waits for it: what it does shows up when it is done, as in any cluster.
            launch = functools.partial(self._launch, "kube-controller-manager", command)
            self._cleanups.callback(supervision.Supervised(launch).stop, grace=GRACE_SECONDS)

    def _kubeconfig(
        self,
        title: str,
        users: Mapping[str, kubeconfig.User],
        namespace: str = "default",
        server: str | None = None,
    ) -> Path:
        path = self.directory / f"{title}-{secrets.token_hex(3)}.kubeconfig"
        endpoint = dataclasses.replace(self.endpoint, server=server or self.server)
        return kubeconfig.write(path, endpoint, users, namespace=namespace)

    def _apiserver(self, site: components.Site, *more: str) -> list[str]:
        extra = (*self._apiserver_args, *more)
        return components.apiserver(site, serving=self._serving, signing_key=self._signing_key, extra=extra)

    def _start_apiserver(self) -> None:
        self._start("kube-apiserver", self._apiserver(self._site))
        _wait_until_ready(self._api, self._running["kube-apiserver"], self._running["etcd"])

    def _start(self, name: str, command: list[str]) -> None:
        self._running[name] = self._launch(name, command)

    def _launch(self, name: str, command: list[str]) -> processes.Program:
        return processes.start(name, command, log=self.directory / f"{name}.log")

    def _stop(self, name: str) -> None:
        program = self._running.pop(name, None)
        if program:
            program.stop(grace=5.0 if name == "kube-apiserver" else GRACE_SECONDS)


def _wait_until_ready(server: api.Api, *needed: processes.Program) -> None:
    """Wait for an API server, but not after its death or etcd's; on failure show the end of a log."""

    def dead() -> processes.Program | None:
        return next((program for program in needed if not program.alive()), None)

    try:
        waiting.until(
            lambda: _answers(server, "/readyz") or dead(),
            what="the API server to be ready",
            seconds=READY_SECONDS,
        )
    except waiting.TimedOut as error:
        raise processes.CannotStart(_with_log(str(error), needed[0])) from None
    if program := dead():
        raise processes.CannotStart(_with_log(f"{program.name} ended by itself", program))


def _answers(server: api.Api, path: str) -> bool:
    """Whether a server answers with success; while it starts it refuses connections or says 500."""
    try:
        server.get(path)
    except ssl.SSLCertVerificationError:
        raise  # Time will not mend that.
    except (OSError, api.ApiError):
        return False
    return True


def _with_log(sentence: str, program: processes.Program) -> str:
    return f"{sentence}; the end of {program.log}:\n{processes.tail(program.log)}"
