"""Each value of the chart: what is set stands in the object that is made of it, and nowhere before.

A new value needs a row here, and a line in the chart's schema.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
import yaml

from release import rendering

pytestmark = pytest.mark.cluster

OPERATOR: Final = "Deployment/berth-operator"
AGENT: Final = "DaemonSet/berth-agent"
POD: Final = "spec/template/spec"
HERE: Final = "spec/template/spec/containers/0"
METADATA: Final = "spec/template/metadata"
NOT_THERE: Final = "not there"
# YAML would take this for truth, and others for numbers, if the chart did not quote them.
ODD: Final = "on"
# What helm has of its own.
OF_HELM: Final = {"global"}


class Row(NamedTuple):
    """A value, what it is set to, and what then stands at a place of an object."""

    value: str
    given: Any
    thing: str
    place: str
    found: Any
    besides: Mapping[str, Any] = MappingProxyType({})  # Other values that it needs.


def same(value: str, given: Any, thing: str, place: str) -> Row:
    """Return the row of a value that is copied."""
    return Row(value, given, thing, place, given)


def of_both(program: str, thing: str) -> Iterator[Row]:
    """Yield the rows of the values that operator and agent have alike."""
    label, toleration = {"team": ODD}, [{"key": ODD, "operator": "Exists"}]
    yield Row(f"{program}.tag", "1e3", thing, f"{HERE}/image", f"localhost/berth-{program}:1e3")
    yield Row(f"{program}.args", ["--log-format=json"], thing, f"{HERE}/args", ["--log-format=json"])
    yield same(f"{program}.env", [{"name": "HTTPS_PROXY", "value": "1"}], thing, f"{HERE}/env")
    yield same(f"{program}.extraVolumes", [{"name": ODD, "emptyDir": {}}], thing, f"{POD}/volumes")
    mounts = [{"name": ODD, "mountPath": "/on"}]
    yield same(f"{program}.extraVolumeMounts", mounts, thing, f"{HERE}/volumeMounts")
    yield same(f"{program}.hostNetwork", True, thing, f"{POD}/hostNetwork")
    for port in ("metrics", "probes"):
        at = [{"name": port, "containerPort": 1234}]
        yield Row(f"{program}.ports.{port}", 1234, thing, f"{HERE}/ports", at)
    resources = {"requests": {"cpu": "3"}, "limits": {"memory": "5Gi"}}
    yield same(f"{program}.resources", resources, thing, f"{HERE}/resources")
    yield same(f"{program}.priorityClassName", "123", thing, f"{POD}/priorityClassName")
    yield same(f"{program}.podSecurityContext", {"fsGroup": 7}, thing, f"{POD}/securityContext")
    yield same(f"{program}.securityContext", {"privileged": True}, thing, f"{HERE}/securityContext")
    yield same(f"{program}.nodeSelector", {"pool": ODD}, thing, f"{POD}/nodeSelector")
    apart = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    yield same(f"{program}.affinity", apart, thing, f"{POD}/affinity")
    yield same(f"{program}.tolerations", toleration, thing, f"{POD}/tolerations")
    yield same(f"{program}.podAnnotations", label, thing, f"{METADATA}/annotations")
    yield same(f"{program}.podLabels", label, thing, f"{METADATA}/labels")
    seconds = f"{program}.terminationGracePeriodSeconds"
    yield same(seconds, 1000000, thing, f"{POD}/terminationGracePeriodSeconds")


def of_operator() -> Iterator[Row]:
    """Yield the rows of the values that only the operator has."""
    yield same("operator.replicas", 1000000, OPERATOR, "spec/replicas")
    yield Row("operator.metricsAuth", "token", OPERATOR, f"{HERE}/args", ["--metrics-auth=token"])
    webhook = {"envDelivery": "webhook"}
    args = ["--listen-webhook=:1234"]
    yield Row("operator.ports.webhook", 1234, OPERATOR, f"{HERE}/args", args, webhook)
    where, configuration = "https://[fd00::1]:9443", "MutatingWebhookConfiguration/berth-env"
    place = "webhooks/0/clientConfig"
    yield Row("operator.webhookURL", where, configuration, place, {"url": f"{where}/env"}, webhook)


def of_agent() -> Iterator[Row]:
    """Yield the rows of the values that only the agent has."""
    args, volumes = f"{HERE}/args", f"{POD}/volumes"
    terms = f"{POD}/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    expressions = [{"matchExpressions": [{"key": ODD, "operator": "In", "values": ["1"]}]}]
    yield Row("agent.nodeLabels", {ODD: "1"}, AGENT, terms, expressions)
    yield same("agent.runtimeClassName", ODD, AGENT, f"{POD}/runtimeClassName")
    yield Row("agent.simulate", "a: b", AGENT, args, ["--simulate=a: b"])
    yield Row("agent.seePrograms", False, AGENT, f"{POD}/hostPID", NOT_THERE)
    paths = [{"hostPath": {"path": f"/a, b/{folder}"}} for folder in ("pod-resources", "device-plugins")]
    yield Row("agent.kubeletFolder", "/a, b", AGENT, volumes, paths)
    at, nri = [{"hostPath": {"path": "/a, b"}}], {"enabled": True}
    yield Row("agent.nri.enabled", True, AGENT, args, ["--nri=/nri/nri.sock"])
    yield Row("agent.nri.socketFolder", "/a, b", AGENT, volumes, at, {"agent": {"nri": nri}})
    yield Row("agent.nri.guard", True, AGENT, args, ["--guard"], {"agent": {"nri": nri}})
    guard, unguarded = {"agent": {"nri": nri | {"guard": True}}}, ["--unguarded-namespaces=berth-system,on"]
    yield Row("agent.nri.unguardedNamespaces", [ODD], AGENT, args, unguarded, guard)
    yield Row("agent.cdi.enabled", True, AGENT, args, ["--cdi=/var/run/cdi"])
    cdi = {"agent": {"cdi": {"enabled": True}}}
    yield Row("agent.cdi.folder", "/a, b", AGENT, volumes, at, cdi)
    socket = ["--kubelet-socket=/kubelet/device-plugins/kubelet.sock"]
    yield Row("agent.devicePlugin.enabled", True, AGENT, args, socket)
    yield Row("agent.driverRoot", "/a, b", AGENT, volumes, at, cdi)
    yield same("agent.updateStrategy", {"rollingUpdate": {"maxUnavailable": 3}}, AGENT, "spec/updateStrategy")


def of_image(program: str, thing: str) -> Iterator[Row]:
    """Yield the rows of the values that both programs have from one place."""
    elsewhere, image = f"a:5000/b/berth-{program}:{version()}", f"{HERE}/image"
    yield Row("image.repository", "a:5000/b", thing, image, elsewhere)
    yield Row("image.tag", "1e3", thing, image, f"localhost/berth-{program}:1e3")
    yield same("image.pullPolicy", "Never", thing, f"{HERE}/imagePullPolicy")
    yield same("imagePullSecrets", [{"name": ODD}], thing, f"{POD}/imagePullSecrets")
    host = [{"name": "KUBERNETES_SERVICE_HOST", "value": "1e3"}]
    yield Row("apiServer.host", "1e3", thing, f"{HERE}/env", host)
    port = [{"name": "KUBERNETES_SERVICE_PORT", "value": "1234"}]
    yield Row("apiServer.port", 1234, thing, f"{HERE}/env", port, {"apiServer": {"host": "a"}})


def of_monitor(program: str) -> Iterator[Row]:
    """Yield the rows of the values for Prometheus' operator."""
    enabled, monitor = {"podMonitor": {"enabled": True}}, f"PodMonitor/berth-{program}"
    labels, bearer, endpoint = {"team": ODD}, {"type": "Bearer"}, "spec/podMetricsEndpoints/0"
    yield Row("podMonitor.enabled", True, monitor, f"{endpoint}/port", "metrics")
    yield Row("podMonitor.interval", "1e3", monitor, f"{endpoint}/interval", "1e3", enabled)
    yield Row("podMonitor.labels", labels, monitor, "metadata/labels", labels, enabled)
    yield Row("podMonitor.authorization", bearer, monitor, f"{endpoint}/authorization", bearer, enabled)


def of_chart() -> Iterator[Row]:
    """Yield the rows of the other values."""
    yield Row("schedulerNames", ["a", ODD], OPERATOR, f"{HERE}/args", ["--scheduler-names=a,on"])
    policy = {"strategy": "binpack", "agents": {"graceSeconds": 41}}
    yield same("policy", policy, "PlacementPolicy/default", "spec")
    yield Row("envDelivery", "webhook", OPERATOR, f"{HERE}/args", ["--listen-webhook=:9443"])
    board, labels, enabled = "ConfigMap/berth-board", {"team": ODD}, {"grafanaBoard": {"enabled": True}}
    yield Row("grafanaBoard.enabled", True, board, "metadata/labels", {"grafana_dashboard": "1"})
    yield Row("grafanaBoard.labels", labels, board, "metadata/labels", labels, enabled)
    yield Row("priorityQuota", 1000000, "ResourceQuota/berth-priorities", "spec/hard", {"pods": "1000000"})


def version() -> str:
    """Return the tag of the images, where no value says another."""
    return str(yaml.safe_load((rendering.CHART / "Chart.yaml").read_text())["appVersion"])


ROWS: Final = (
    *of_both("operator", OPERATOR),
    *of_both("agent", AGENT),
    *of_operator(),
    *of_agent(),
    *of_image("operator", OPERATOR),
    *of_image("agent", AGENT),
    *of_monitor("operator"),
    *of_monitor("agent"),
    *of_chart(),
)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.value} in {row.thing}") for row in ROWS])
def test_a_value_stands_where_it_is_meant_to(row: Row, tmp_path: Path) -> None:
    """And did not stand there before it was set."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(merged(row.besides, nested(row.value, row.given))))

    before = at(rendered(json.dumps(dict(row.besides))), row)
    found = at(by_name(rendering.render("--values", f"{values}")), row)

    assert within(row.found, found)
    assert not within(row.found, before)


def test_each_value_has_a_row() -> None:
    """In the chart's values, in its schema, and here."""
    chart = yaml.safe_load((rendering.CHART / "values.yaml").read_text())
    schema = json.loads((rendering.CHART / "values.schema.json").read_text())

    values = set(leaves(chart, schema))
    assert values == {row.value for row in ROWS}
    assert values == set(described(schema)) - OF_HELM


def test_operators_stay_apart_unless_they_are_told_otherwise() -> None:
    """What is said of nodes leaves that alone."""

    def affinity(*words: str) -> Any:
        things = by_name(rendering.render(*words))
        return things[OPERATOR]["spec"]["template"]["spec"]["affinity"]

    apart = affinity()
    assert set(apart) == {"podAntiAffinity"}
    by_node = affinity("--set-json", 'operator.affinity={"nodeAffinity": {"a": "b"}}')
    assert by_node == apart | {"nodeAffinity": {"a": "b"}}
    assert affinity("--set-json", 'operator.affinity={"podAntiAffinity": {}}') == {"podAntiAffinity": {}}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param('agent.affinity={"podAffinity": {"a": "b"}}', True, id="another affinity"),
        pytest.param('agent.affinity={"nodeAffinity": {"a": "b"}}', False, id="an affinity to nodes"),
        pytest.param('agent.affinity={"nodeAffinity": {}}', False, id="none to nodes"),
        pytest.param('agent.nodeSelector={"pool": "gpu"}', False, id="a node selector"),
    ],
)
def test_labels_of_nodes_count_where_nothing_else_chooses_nodes(value: str, *, kept: bool) -> None:
    """The notes name them in that case only."""
    things = by_name(rendering.render("--set-json", value))
    usual = by_name(rendering.render())[AGENT]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]

    found = things[AGENT]["spec"]["template"]["spec"].get("affinity", {})
    assert (found.get("nodeAffinity") == usual) == kept
    words = ("install", "berth", f"{rendering.CHART}", "--dry-run=client", "--set-json", value)
    assert ("Agents run on nodes with one of these labels" in rendering.helm(*words)) == kept


@functools.cache
def rendered(values: str) -> dict[str, rendering.Thing]:
    """Return the objects of the chart with some values, by kind and name."""
    words = (f"--set-json={key}={json.dumps(value)}" for key, value in json.loads(values).items())
    return by_name(rendering.render(*words))


def by_name(things: list[rendering.Thing]) -> dict[str, rendering.Thing]:
    """Return objects by kind and name."""
    return {f"{thing['kind']}/{thing['metadata']['name']}": thing for thing in things}


def at(things: dict[str, rendering.Thing], row: Row) -> Any:
    """Return what stands at the place of a row, or that nothing does."""
    found: Any = things.get(row.thing, {})
    for key in row.place.split("/"):
        found = found[int(key)] if isinstance(found, list) else found.get(key, NOT_THERE)
        if found == NOT_THERE:
            break
    return found


def within(expected: Any, found: Any) -> bool:
    """Whether all that is expected is there: each key of a mapping, each entry of a list."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and within(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return all(any(within(one, other) for other in found) for one in expected)
    return type(expected) is type(found) and expected == found


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the values with one value at a path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    found: dict[str, Any] = value
    return found


def merged(some: Mapping[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return two sets of values in one."""
    found = dict(some)
    for key, value in others.items():
        found[key] = merged(found[key], value) if isinstance(found.get(key), dict) else value
    return found


def leaves(values: dict[str, Any], schema: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield the paths of the values; an empty or open mapping is one."""
    for key, value in values.items():
        described_as = schema["properties"].get(key, {})
        if value and isinstance(value, dict) and is_closed(described_as):
            yield from leaves(value, described_as, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def described(schema: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield the paths of the values that a schema knows."""
    for key, value in schema["properties"].items():
        if is_closed(value) and key != "affinity":
            yield from described(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def is_closed(schema: dict[str, Any]) -> bool:
    """Whether a schema knows all keys of a mapping."""
    return schema.get("additionalProperties") is False
