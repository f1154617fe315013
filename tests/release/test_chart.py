"""The chart: what it renders to, that a real API server takes that, and that a mistake is refused."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from release import layout, rendering, versions
from support import thorough
from testbed import binaries, lending
from testbed.cluster import Cluster, KubectlFailed

pytestmark = pytest.mark.cluster

ELSEWHERE: Final = "gpu"
VERSION: Final = versions.of_checkout(layout.ROOT)
EVERYTHING: Final = (
    *("--set", "agent.nri.enabled=true", "--set", "agent.nri.guard=true", "--set", "agent.cdi.enabled=true"),
    *("--set", "agent.devicePlugin.enabled=true", "--set", "podMonitor.enabled=true"),
    *("--set", "apiServer.host=10.0.0.1", "--set", "imagePullSecrets[0].name=pull"),
)

HELM_3: Final = pytest.mark.skipif(not thorough.FULL, reason="`make e2e-install` builds helm 3")


@pytest.fixture(scope="module")
def bare_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Lend a cluster on which nothing of Berth was installed."""
    yield from lending.lend(Cluster(), request.config)


def pod_specs(things: list[rendering.Thing]) -> dict[str, dict[str, Any]]:
    """Return the specs of the pods of the operator and the agent."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in things
        if one["kind"] in {"Deployment", "DaemonSet"}
    }


def test_the_file_for_those_without_helm_is_what_the_chart_renders_to() -> None:
    """`make manifests` writes it."""
    assert rendering.RENDERED.read_text() == rendering.text()


@pytest.mark.parametrize("policies", [True, False], ids=["1.36", "1.34"])
def test_another_namespace_leaves_nothing_in_the_usual_one(*, policies: bool) -> None:
    """Not even in the expressions of policies."""
    things = rendering.render(*EVERYTHING, namespace=ELSEWHERE, policies=policies)

    assert "berth-system" not in json.dumps(things)
    kinds = {one["kind"] for one in things}
    assert ("MutatingAdmissionPolicy" in kinds, "MutatingWebhookConfiguration" in kinds) == (
        policies,
        not policies,
    )
    operator = pod_specs(things)["berth-operator"]["containers"][0]
    assert ("--listen-webhook=:9443" in operator["args"]) == (not policies)


def test_other_names_of_the_scheduler_are_named_everywhere() -> None:
    """The first is written into pods of namespaces that want Berth."""
    text = json.dumps(rendering.render("--set", "schedulerNames={gpu-scheduler,old-scheduler}"))

    assert "--scheduler-names=gpu-scheduler,old-scheduler" in text
    assert "['gpu-scheduler', 'old-scheduler']" in text
    assert 'value: \\"gpu-scheduler\\"' in text
    assert "'berth-scheduler'" not in text


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("operator.replica=3", "additional properties 'replica' not allowed"),
        ("operator.replicas=0", "minimum: got 0, want 1"),
        ("envDelivery=maybe", "value must be one of 'auto', 'policy', 'webhook', 'none'"),
        ("agent.kubeletFolder=var", "does not match pattern"),
        ("schedulerNames={Mine}", "does not match pattern"),
        ("agent.nri.guard=true", "value must be true"),
        ("operator.webhookURL=http://10.0.0.1", "does not match pattern"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(value: str, sentence: str) -> None:
    """By a sentence that names it."""
    with pytest.raises(rendering.RenderingFailed, match=re.escape(sentence)):
        rendering.render("--set", value)


@pytest.mark.parametrize("page", ["gpu-operator.md", "installing.md"])
def test_values_on_the_pages_are_ones_that_the_chart_takes(page: str, tmp_path: Path) -> None:
    """Each block of values for Berth's chart renders, and each value that is named is there."""
    text = (layout.ROOT / "manifests" / page).read_text()
    known = yaml.safe_load((rendering.CHART / "values.yaml").read_text())

    for named in re.findall(r"`((?:agent|operator|image|apiServer|podMonitor)\.[a-zA-Z.]+)[`:]", text):
        found = known
        for key in named.split("."):
            assert key in found, named
            found = found[key]
    file = tmp_path / "values.yaml"
    for block in re.findall(r"^```yaml\n(agent:.*?)^```", text, re.MULTILINE | re.DOTALL):
        file.write_text(block)
        assert pod_specs(rendering.render("--values", f"{file}"))["berth-agent"]


def test_what_is_chosen_is_rendered() -> None:
    """Each value that few clusters need stands where it is meant to."""
    things = rendering.render(
        *("--set", "priorityQuota=7", "--set", "operator.webhookURL=https://10.0.0.1:9443"),
        *("--set", "podMonitor.enabled=true", "--set", "podMonitor.labels.team=gpu"),
        *("--set", "podMonitor.authorization.type=Bearer"),
        *("--set", "agent.podSecurityContext.seLinuxOptions.type=spc_t"),
        *("--set", "operator.podSecurityContext.runAsUser=1000"),
        *("--set", "agent.nri.enabled=true,agent.nri.guard=true,agent.nri.unguardedNamespaces={cards}"),
        policies=False,
    )
    of_kind = {thing["kind"]: thing for thing in things}

    assert of_kind["ResourceQuota"]["spec"]["hard"] == {"pods": "7"}
    webhooks = of_kind["MutatingWebhookConfiguration"]["webhooks"]
    assert [webhook["clientConfig"].keys() for webhook in webhooks] == [{"url"}] * len(webhooks)
    assert webhooks[0]["clientConfig"]["url"] == "https://10.0.0.1:9443/env"
    assert of_kind["PodMonitor"]["metadata"]["labels"]["team"] == "gpu"
    assert of_kind["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["authorization"] == {"type": "Bearer"}
    specs = pod_specs(things)
    assert specs["berth-agent"]["securityContext"] == {"seLinuxOptions": {"type": "spc_t"}}
    assert specs["berth-operator"]["securityContext"]["runAsUser"] == 1000
    assert (
        f"--unguarded-namespaces={names.SYSTEM_NAMESPACE},cards"
        in specs["berth-agent"]["containers"][0]["args"]
    )


@pytest.mark.parametrize(
    ("prometheus", "place"),
    [
        pytest.param({}, "monitoring", id="the usual namespace"),
        pytest.param({"namespace": "metrics"}, "metrics", id="another namespace"),
        pytest.param({"url": "http://prometheus.example.com"}, "", id="an address"),
        pytest.param(None, "", id="loads of agents"),
    ],
)
def test_services_are_listed_only_where_prometheus_is_looked_for(
    prometheus: dict[str, str] | None, place: str, tmp_path: Path
) -> None:
    """The policy that says so brings the right, in the namespace that it names."""
    load = {} if prometheus is None else {"source": "prometheus", "prometheus": prometheus}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"policy": {"load": load}}))

    things = rendering.render("--values", f"{file}", namespace=ELSEWHERE)

    found = [one for one in things if one["metadata"]["name"] == "berth-prometheus"]
    assert [(one["kind"], one["metadata"]["namespace"]) for one in found] == [
        (kind, place) for kind in ("Role", "RoleBinding") if place
    ]
    listing = [one for one in things if "services" in json.dumps(one.get("rules", []))]
    assert listing == found[:1]
    assert all(one["subjects"][0]["namespace"] == ELSEWHERE for one in found[1:])


def test_files_for_prometheus_are_mounted() -> None:
    """A Secret that has the token stands in the operator's pod where its flag looks for it."""
    things = rendering.render(
        *("--set", "operator.args={--prometheus-token-file=/prometheus/token}"),
        *("--set", "operator.extraVolumes[0].name=token,operator.extraVolumes[0].secret.secretName=it"),
        *("--set", "operator.extraVolumeMounts[0].name=token"),
        *("--set", "operator.extraVolumeMounts[0].mountPath=/prometheus"),
    )

    spec = pod_specs(things)["berth-operator"]
    assert spec["volumes"] == [{"name": "token", "secret": {"secretName": "it"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "token", "mountPath": "/prometheus"}]


def test_the_page_renders_all_of_it_for_kubectl() -> None:
    """In the namespace that it names, without the pod of `helm test`."""
    text = (layout.ROOT / "manifests" / "installing.md").read_text()
    (command,) = re.findall(r"^helm (template .*)$", text, re.MULTILINE)
    things = [one for one in yaml.safe_load_all(rendering.helm(*command.split(), at=layout.ROOT)) if one]

    kinds = {thing["kind"] for thing in things}
    assert {"CustomResourceDefinition", "Deployment", "DaemonSet", "MutatingAdmissionPolicy"} <= kinds
    assert "Pod" not in kinds
    places = {thing["metadata"].get("namespace", "") for thing in things}
    assert places == {"", names.SYSTEM_NAMESPACE, names.NODES_NAMESPACE}


@pytest.mark.parametrize("policies", [True, False], ids=["1.36", "1.34"])
def test_nobody_has_more_rights_than_needed(*, policies: bool) -> None:
    """No wildcards, no privileged pods, nobody but the agent on the host, and no default accounts."""
    things = rendering.render(*EVERYTHING, policies=policies)
    rules = [rule for one in things if one["kind"] in {"Role", "ClusterRole"} for rule in one["rules"]]

    assert rules
    assert [rule for rule in rules if "*" in json.dumps(rule)] == []
    specs = pod_specs(things)
    assert {spec["serviceAccountName"] for spec in specs.values()} == {"berth-operator", "berth-agent"}
    for spec in specs.values():
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
    pods = [thing["spec"] for thing in things if thing["kind"] == "Pod"]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [False]
    operator = specs["berth-operator"]
    assert operator["securityContext"]["runAsNonRoot"]
    assert "volumes" not in operator
    assert "hostPID" not in operator


def test_an_agent_of_another_version_is_not_asked_what_it_may_not_know() -> None:
    """It would never be ready, and a rollback to it would not end."""

    def probes(*words: str) -> set[str]:
        (agent,) = pod_specs(rendering.render(*words))["berth-agent"]["containers"]
        return {key for key in agent if key.endswith("Probe")}

    assert probes() == {"livenessProbe", "readinessProbe"}
    assert probes("--set", "agent.tag=0.1.0") == probes("--set", "image.tag=0.1.0") == {"livenessProbe"}
    assert probes("--set", "image.tag=0.1.0", "--set", f"agent.tag={VERSION}") == probes()


def test_each_mount_is_needed() -> None:
    """By the environment alone the agent reads three folders of the host, and writes none."""
    by_environment = pod_specs(rendering.render())["berth-agent"]
    everything = pod_specs(rendering.render(*EVERYTHING))["berth-agent"]

    def folders(spec: dict[str, Any]) -> list[str]:
        return [one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one]

    kubelet = [f"/var/lib/kubelet/{folder}" for folder in ("pod-resources", "device-plugins")]
    assert folders(by_environment) == ["/sys", *kubelet]
    assert all(mount.get("readOnly") for mount in by_environment["containers"][0]["volumeMounts"])
    assert folders(everything)[3:] == ["/var/run/nri", "/var/run/cdi", "/"]


@pytest.mark.parametrize(("name", "level"), [("berth-operator", "restricted"), ("berth-agent", "privileged")])
def test_a_namespace_may_be_as_strict_as_the_page_says(name: str, level: str, bare_cluster: Cluster) -> None:
    """The API server's own Pod Security lets the operator pass at the strictest level, the agent at none."""
    namespace = bare_cluster.namespace()
    bare_cluster.service_account(namespace, name)
    spec = {**pod_specs(rendering.render(namespace=namespace))[name], "priorityClassName": ""}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    words = ("create", "--namespace", namespace, "--dry-run=server", "-f", "-")

    bare_cluster.kubectl("label", "namespace", namespace, f"pod-security.kubernetes.io/enforce={level}")
    bare_cluster.kubectl(*words, stdin=json.dumps(pod))
    if level == "privileged":
        label = "pod-security.kubernetes.io/enforce=baseline"
        bare_cluster.kubectl("label", "namespace", namespace, "--overwrite", label)
        with pytest.raises(KubectlFailed, match="violates PodSecurity"):
            bare_cluster.kubectl(*words, stdin=json.dumps(pod))


@HELM_3
@pytest.mark.parametrize("words", [(), EVERYTHING], ids=["as it is", "with everything"])
def test_helm_3_renders_the_same(words: tuple[str, ...]) -> None:
    """And has nothing to say against the chart."""
    assert rendering.render(*words, kinds=True, name="helm3") == rendering.render(*words, kinds=True)
    rendering.helm("lint", "--strict", f"{rendering.CHART}", name="helm3")


@pytest.mark.parametrize("helm", [pytest.param("helm3", marks=HELM_3), "helm"])
def test_helm_installs_it_anywhere_and_leaves_the_kinds(helm: str, bare_cluster: Cluster) -> None:
    """It upgrades to itself, too. What people have written stays when it goes, and may be there before."""
    kubeconfig = ("--kubeconfig", f"{bare_cluster.admin_kubeconfig}")
    for action in ("install", "upgrade"):
        rendering.helm(
            *(action, "berth", f"{rendering.CHART}", "--namespace", ELSEWHERE, *kubeconfig),
            *(("--create-namespace",) if action == "install" else ()),
            name=helm,
        )
    found = json.loads(
        bare_cluster.kubectl("get", "deployments,daemonsets", "--all-namespaces", "--output=json")
    )
    assert {one["metadata"]["namespace"] for one in found["items"]} == {ELSEWHERE}
    rendering.helm("uninstall", "berth", "--namespace", ELSEWHERE, *kubeconfig, name=helm)
    bare_cluster.kubectl("wait", "--for=delete", "namespace/berth-nodes", "--timeout=60s")
    kept = bare_cluster.kubectl("get", "crds,placementpolicies", "--output=name").split()
    assert "placementpolicy.berth.dev/default" in kept
    assert "customresourcedefinition.apiextensions.k8s.io/devices.berth.dev" in kept


def test_what_the_page_says_about_removal_leaves_nothing(bare_cluster: Cluster) -> None:
    """After helm the fence, the kinds and the policy are there, and then they are not."""
    page = (layout.ROOT / "manifests" / "installing.md").read_text().partition("\n## Removing\n")[2]
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    everything = (
        "get",
        "crds,validatingadmissionpolicies,validatingadmissionpolicybindings",
        "--output=name",
    )

    assert "berth-fence" in bare_cluster.kubectl(*everything)
    subprocess.run(["bash", "-euc", commands], cwd=layout.ROOT, env=bare_cluster.shell(), check=True)
    assert "berth" not in bare_cluster.kubectl(*everything)


def test_a_node_forgets_its_device_plugin_by_the_command_of_the_page(bare_cluster: Cluster) -> None:
    """What the kubelet left at none is not there any more."""
    page = (layout.ROOT / "manifests" / "gpu-operator.md").read_text()
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    amounts = {"cpu": "8", "nvidia.com/gpu": "0"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "left"}}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    bare_cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
    bare_cluster.kubectl("patch", "node", "left", "--subresource=status", "--patch", json.dumps(status))

    subprocess.run(["bash", "-euc", commands], env=bare_cluster.shell() | {"NODE": "left"}, check=True)
    found = json.loads(bare_cluster.kubectl("get", "node", "left", "--output=json"))["status"]
    assert found["capacity"] == found["allocatable"] == {"cpu": "8"}


@pytest.mark.skipif(
    bool(binaries.release()), reason="the file is for API servers with both kinds of policies"
)
def test_kubectl_installs_it_without_helm(bare_cluster: Cluster) -> None:
    """A second time, too."""
    words = ("apply", "--server-side", "-k", f"{rendering.RENDERED.parent}")
    bare_cluster.kubectl("apply", "--server-side", "-f", f"{layout.ROOT / 'crds'}")
    for _ in range(2):
        bare_cluster.kubectl(*words)

    found = bare_cluster.kubectl("get", "deployments,daemonsets", "-A", "--output=name").split()
    assert found == ["deployment.apps/berth-operator", "daemonset.apps/berth-agent"]
