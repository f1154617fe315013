"""Berth's own programs as processes, under their own service accounts and shipped roles.

What the demo and the end-to-end tests have in common: install what the project ships,
start an operator or an agent, end it politely or by a crash. No process outlives us.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from berth_crds import names
from support import manifests
from testbed import cluster as clusters
from testbed import forks, processes, shipped, waiting

ROOT: Final = Path(__file__).resolve().parents[2]
SYSTEM: Final = "berth-system"
ENV_DELIVERY: Final = "env-delivery.yaml"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@dataclasses.dataclass(slots=True)
class Fleet:
    """The programs of one cluster."""

    cluster: clusters.Cluster
    programs: list[processes.Program] = dataclasses.field(default_factory=list)

    def install(self, *, env_delivered: bool = True) -> None:
        """Apply crds/ and manifests/, as a user would, or all but the policies that write environments."""
        shipped.install(self.cluster, without=() if env_delivered else (ENV_DELIVERY,))
        # The server takes a second to notice a policy, and lets everything pass until then.
        waiting.until(lambda: "berth-fence" in self._refusal(), what="the fence to be in force", seconds=30)
        waiting.until(self._bounds, what="the bounds of agents to be in force", seconds=30)
        # The server learns of policies in the order in which they were applied, and this one comes last.
        waiting.until(
            lambda: "only its own Lease" in self._refused(names.OPERATOR_ACCOUNT, LEASES.format(SYSTEM)),
            what="the bounds of the operator to be in force",
            seconds=30,
        )
        if not env_delivered:
            return
        # For the first pods that policies change the server reads a schema, once for each of those that come
        # at one time: 32 of them kept it busy for three seconds.
        waiting.until(self._env_delivered, what="pods to be given their environment", seconds=30)

    def until_ready(self, *nodes: str) -> None:
        """Wait until the Devices of nodes are there, and ready."""
        for node in nodes:
            for state in ("create", "condition=Ready"):
                self.cluster.kubectl("wait", f"--for={state}", f"device/{node}", "--timeout=60s")

    def protect(self) -> None:
        """Apply the policies again that guard what pods hold."""
        file = str(ROOT / "manifests" / "admission.yaml")
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", file)

    def _refusal(self) -> str:
        """Return what the server says against a Binding that nobody may make."""
        meta = {"name": "nobody", "labels": {names.FENCED_LABEL: "true"}}
        thing = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"name": "nowhere"}}
        return self.cluster.objection("/api/v1/namespaces/default/pods/nobody/binding", thing)

    def _bounds(self) -> bool:
        """Whether an agent without a node is refused all that it would write."""
        ours, group = {"apiVersion": names.API_VERSION}, f"/apis/{names.API_VERSION}"
        device = {"node": "nobody", "devices": [], "summary": {"models": "", "gpus": 0}}
        pod = {"node": "nobody", "podUID": "u", "containers": []}
        things: dict[str, dict[str, Any]] = {
            f"{group}/devices": ours | {"kind": "Device", "spec": device},
            f"{group}/namespaces/default/gpupods": ours | {"kind": "GpuPod", "spec": pod},
            LEASES.format(names.NODES_NAMESPACE): {},
            "/api/v1/nodes": {},
        }
        refusals = (self._refused(names.AGENT_ACCOUNT, path, **thing) for path, thing in things.items())
        return all("names no node" in refusal for refusal in refusals)

    def _env_delivered(self) -> bool:
        """Whether a pod that is created gets the variables from which its programs learn of their cards."""
        # Of an account that was installed: nobody may make those of namespaces here.
        pod = manifests.pod("nobody", namespace=SYSTEM, serviceAccountName=names.OPERATOR_ACCOUNT)
        made = self.cluster.send("POST", f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All", pod)
        return "NVIDIA_VISIBLE_DEVICES" in str(made["spec"])

    def _refused(self, account: str, path: str, **rest: Any) -> str:
        """Return what the server says against an object of Berth's account, called nobody."""
        user = f"system:serviceaccount:{SYSTEM}:{account}"
        return self.cluster.objection(path, {"metadata": {"name": "nobody"}, **rest}, user)

    def operator(
        self, *flags: str, name: str = "berth-operator", env: Mapping[str, str] | None = None
    ) -> processes.Program:
        """Start an operator, perhaps with an environment of its own."""
        words = ["--name", name, *flags]
        account = self.cluster.kubeconfig_for(SYSTEM, "berth-operator")
        return self._start("berth_operator", account, words, name=name, env=env)

    def agent(
        self,
        *nodes: tuple[str, str],
        flags: Sequence[str] = (),
        name: str = "",
        env: Mapping[str, str] | None = None,
    ) -> processes.Program:
        """Start one agent process that speaks for these nodes, given as name and shape.

        A node without a shape has the cards that a library of NVML tells of, which the environment names.
        """
        words = [
            word
            for node, shape in nodes
            for word in (("--simulated-node", f"{node}={shape}") if shape else ("--node", node))
        ]
        # Each node speaks with a token of its own, as the agent on it would.
        account = self.cluster.kubeconfig_by_node(SYSTEM, "berth-agent", [node for node, _ in nodes])
        title = name or f"agent-{nodes[0][0]}"
        return self._start("berth_agent", account, ["--context-by-node", *words, *flags], name=title, env=env)

    def _start(
        self,
        module: str,
        kubeconfig: Path,
        words: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
    ) -> processes.Program:
        command = [module, "--kubeconfig", str(kubeconfig), *words]
        log = self.cluster.directory / f"{name}.log"
        environment = {**os.environ, **processes.OF_OURS, "PYTHONUNBUFFERED": "1", **(env or {})}
        program = forks.start(name, command, log=log, env=environment)
        self.programs = [one for one in self.programs if one.alive()] + [program]
        return program
