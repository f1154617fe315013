"""The promises of the first slice, on a real API server, each program under its own account."""

import asyncio
import collections
import itertools
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from berth_crds import names
from berth_crds.client import resources
from e2e import fleet
from e2e.conditions import scheduled
from e2e.stage import AGENT, OPERATOR, Pod, Stage, pod
from support import manifests
from testbed import audit
from testbed import cluster as clusters

# ---------------------------------------------------------------- one write


@pytest.mark.usefixtures("leader")
async def test_a_pod_that_fits_at_once_costs_exactly_one_write_and_little_else(stage: Stage) -> None:
    """Its Binding carries everything; beside it come an event, the Lease, and a few Device statuses."""
    await stage.ready_nodes(once="4xT4")
    before = len(audit.writes_by(stage.cluster.audit(), OPERATOR))

    await stage.placed(manifests.pod("a"), manifests.pod("b", 2))
    await stage.until_device("once", "show it", lambda device: device["status"]["summary"]["used"] == 3)

    async def audited() -> list[audit.AuditEvent] | None:
        # The line of a write arrives a moment after its answer.
        found = audit.writes_by(stage.cluster.audit(), OPERATOR)[before:]
        subjects = [one.resource for one in found]
        return found if {"devices", "leases"} <= {*subjects} and subjects.count("events") == 2 else None

    written = await stage.until("the audit of it all", audited)
    kinds = collections.Counter((one.resource, one.subresource) for one in written)
    assert kinds.pop(("leases", "")) >= 1
    assert 1 <= kinds.pop(("devices", "status")) <= 3
    # It is written once after the start, and on a busy machine that may be now.
    assert kinds.pop(("placementpolicies", "status"), 0) <= 1
    assert kinds == {("pods", "binding"): 2, ("events", ""): 2}
    assert audit.refused(written) == []
    await stage.assert_sound("a", "b")


@pytest.mark.usefixtures("leader")
async def test_a_pod_that_waits_costs_one_more_write_for_each_changed_verdict(stage: Stage) -> None:
    """A waiting pod gets one status patch while the reason stays the same, and then its Binding.

    On a busy machine its first reason may be the counts alone, and the next be cut short. What would help is
    then told when there is time.
    """
    await stage.nodes(full="1xT4")
    await stage.placed(manifests.pod("first"))
    before = (await stage.pods())["first"]["metadata"]["resourceVersion"]

    told = await stage.waiting_pod(manifests.pod("second"))
    await stage.create(manifests.pod("third", 4))  # Rounds go on while the second waits.
    await stage.until_told("third")
    await asyncio.sleep(1.0)  # Attempts come and go: none of them may write.
    await stage.until_told("second", "Would fit")
    await stage.delete("first")
    await stage.until_bound("second")
    await stage.binds(2)

    assert told["reason"] == "Unschedulable"
    *short, last = await _verdicts(stage, "second", since=before)
    assert last.startswith("0/1 nodes are available: 1 has no free card. Would fit")
    assert all(one.startswith("0/1 nodes are available: 1 has no free card") for one in short)
    assert len(short) <= 2
    writes = [one.subresource for one in stage.writes() if one.name == "second"]
    assert writes == ["status"] * len([*short, last]) + ["binding"]


async def _verdicts(stage: Stage, name: str, *, since: str) -> list[str]:
    """Return each sentence that a pod was told since a revision, in order."""
    params = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": since}
    path = resources.PODS.path(namespace=stage.namespace)
    seen = await stage.admin.send("GET", path, params=params | {"fieldSelector": f"metadata.name={name}"})
    told = [scheduled(json.loads(line)["object"]) for line in seen.splitlines()]
    sentences = [one["message"] for one in told if one.get("status") == "False"]
    return [sentence for sentence, _ in itertools.groupby(sentences)]


# ---------------------------------------------------------------- rights

MAY_NOT: Final = [
    (OPERATOR, "patch", "pods", "default"),
    (OPERATOR, "update", "pods", "default"),
    (OPERATOR, "delete", "pods", "default"),
    (OPERATOR, "create", "pods", "default"),
    (OPERATOR, "patch", "devices.berth.dev", ""),
    (OPERATOR, "delete", "devices.berth.dev", ""),
    (OPERATOR, "create", "gpupods.berth.dev", "default"),
    (OPERATOR, "patch", "gpupods.berth.dev", "default"),
    (OPERATOR, "patch", "gpupods.berth.dev/status", "default"),
    (OPERATOR, "get", "devices.berth.dev", ""),
    (OPERATOR, "get", "placementpolicies.berth.dev", ""),
    (OPERATOR, "get", "nodes", ""),
    (OPERATOR, "get", "leases", "berth-nodes"),
    (OPERATOR, "list", "events", "default"),
    (OPERATOR, "create", "tokenreviews.authentication.k8s.io", ""),
    (OPERATOR, "create", "subjectaccessreviews.authorization.k8s.io", ""),
    (OPERATOR, "get", "secrets", "berth-system"),
    (OPERATOR, "update", "leases", "berth-nodes"),
    (OPERATOR, "delete", "leases", "berth-system"),
    (AGENT, "get", "pods", "default"),
    (AGENT, "create", "pods", "default"),
    (AGENT, "patch", "pods", "default"),
    (AGENT, "update", "pods", "default"),
    (AGENT, "delete", "pods", "default"),
    (AGENT, "patch", "pods/status", "default"),
    (AGENT, "create", "pods/binding", "default"),
    (AGENT, "create", "nodes", ""),
    (AGENT, "update", "nodes", ""),
    (AGENT, "patch", "nodes/status", ""),
    (AGENT, "update", "leases/berth-operator", "berth-system"),
    (AGENT, "patch", "leases/berth-operator", "berth-system"),
    (AGENT, "create", "leases", "berth-system"),
    (AGENT, "delete", "devices.berth.dev", ""),
    (AGENT, "patch", "placementpolicies.berth.dev", ""),
    (AGENT, "get", "placementpolicies.berth.dev", ""),
    (AGENT, "get", "secrets", "berth-system"),
]
MAY: Final = [
    (OPERATOR, "create", "pods/binding", "default"),
    (OPERATOR, "patch", "pods/status", "default"),
    # By policy, and no more than its own taint: see `test_operator_policies`.
    (OPERATOR, "patch", "nodes", ""),
    (OPERATOR, "create", "pods/eviction", "default"),
    (OPERATOR, "update", "leases/berth-operator", "berth-system"),
    (OPERATOR, "get", "pods", "default"),
    (OPERATOR, "delete", "gpupods.berth.dev", "default"),
    (OPERATOR, "get", "gpupods.berth.dev", "default"),
    (OPERATOR, "list", "gpupods.berth.dev", ""),
    (OPERATOR, "watch", "gpupods.berth.dev", ""),
    (AGENT, "patch", "devices.berth.dev", ""),
    (AGENT, "patch", "leases", "berth-nodes"),
    (AGENT, "patch", "nodes", ""),
    (AGENT, "watch", "placementpolicies.berth.dev", ""),
]


@pytest.mark.parametrize(("rules", "allowed"), [(MAY_NOT, False), (MAY, True)], ids=["narrow", "suffice"])
async def test_the_shipped_roles_are_narrow_and_suffice(
    stage: Stage, subtests: pytest.Subtests, rules: Sequence[tuple[str, str, str, str]], *, allowed: bool
) -> None:
    """Neither program may do more than it needs, above all the operator write pods; what it needs it may."""
    for user, verb, what, namespace in rules:
        # A name of an object is written with a slash, as is a subresource; ours are told apart by their kind.
        path, _, rest = what.partition("/")
        resource, _, group = path.partition(".")
        group = "coordination.k8s.io" if resource == "leases" else group
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        attributes |= {"name" if resource == "leases" else "subresource": rest}
        with subtests.test(f"{user} {verb} {what} in {namespace!r}"):
            assert await stage.may(user, attributes) == allowed


# ---------------------------------------------------------------- nonsense


NONSENSE: Final[dict[str, tuple[Pod, str, str]]] = {
    "neither part nor whole": (manifests.pod("x", {names.GPU: "150"}), "InvalidRequest", "150 is neither"),
    "two ways at once": (
        pod("x", limits={names.GPU: "100"}),
        "InvalidRequest",
        "asks for both",
    ),
    "half a share of two cards": (
        manifests.pod("x", {names.GPU_SHARED: "2"}),
        "InvalidRequest",
        "berth.dev/gpu.shared",
    ),
    "units of another vendor": (
        manifests.pod("x", {"huawei.com/Ascend910": "1"}),
        "UnsupportedRequest",
        "huawei.com/Ascend910",
    ),
    "far too many cards": (manifests.pod("x", 65), "InvalidRequest", "no node has more than 64"),
    "no model named": (
        manifests.pod("x", annotations={names.MODEL: " , "}),
        "InvalidRequest",
        "names no model",
    ),
    "an annotation of later": (
        manifests.pod("x", annotations={names.GANG: "g"}),
        "UnsupportedRequest",
        "berth.dev/gang is not served yet",
    ),
    "far too many volumes": (
        manifests.pod(
            "x",
            volumes=[
                {"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in range(65)
            ],
        ),
        "UnsupportedRequest",
        "the pod uses 65 persistent volume claims; Berth reads 64 at most",
    ),
}


@pytest.mark.usefixtures("leader")
async def test_nonsense_is_answered_by_a_condition_and_an_event(stage: Stage) -> None:
    """A pod that asks for nonsense is told what is wrong, in its condition and an event, and not bound."""
    await stage.nodes(sane="1xT4")

    wanted = {f"n{at}": row for at, row in enumerate(NONSENSE.values())}
    for name, (thing, _, _) in wanted.items():
        await stage.create(thing | {"metadata": thing["metadata"] | {"name": name}})
    for name in wanted:
        await stage.until_told(name)

    for name, (_, reason, sentence) in wanted.items():
        told = scheduled((await stage.pods())[name])
        assert told["reason"] == reason, name
        assert sentence in told["message"]

        async def posted(name: str = name) -> list[dict[str, Any]]:
            return await stage.events(name)

        (event,) = await stage.until(f"the event of {name}", posted)
        assert (event["reason"], event["message"]) == ("FailedScheduling", told["message"])
    assert await stage.bound() == {}


BAD_DEVICES: Final[dict[str, tuple[dict[str, Any], Sequence[str]]]] = {
    "no minor": ({"devices": [{"uuid": "GPU-1", "type": "gpu"}]}, ["spec.devices[0].minor", "Required"]),
    "a negative minor": (
        {"devices": [{"uuid": "GPU-1", "type": "gpu", "minor": -1}]},
        ["spec.devices[0].minor", "greater than or equal to 0"],
    ),
    "a card twice": (
        {"devices": [{"uuid": "GPU-1", "type": "gpu", "minor": at} for at in range(2)]},
        ["spec", "all devices must have different uuids"],
    ),
    "a word for a list": ({"devices": "all"}, ["spec.devices", "must be of type array"]),
}


@pytest.mark.parametrize(("spec", "words"), BAD_DEVICES.values(), ids=BAD_DEVICES.keys())
def test_a_device_that_makes_no_sense_is_refused_in_words(
    base: fleet.Fleet, spec: dict[str, Any], words: Sequence[str]
) -> None:
    """The schema turns a bad Device away with a sentence that names the field and the fault."""
    thing = {"apiVersion": names.API_VERSION, "kind": "Device", "metadata": {"name": "bad"}}

    with pytest.raises(clusters.KubectlFailed) as refused:
        base.cluster.kubectl("create", "-f", "-", stdin=json.dumps(thing | {"spec": {"node": "bad"} | spec}))

    for word in words:
        assert word in str(refused.value)


# ---------------------------------------------------------------- freeing


@pytest.mark.usefixtures("leader")
async def test_a_card_that_becomes_free_is_given_again(stage: Stage) -> None:
    """A pod that finishes, fails or is deleted makes room for one that waits."""
    await stage.nodes(freeing="1xT4")
    await stage.placed(manifests.pod("p0"))

    for at, end in enumerate(("Succeeded", "Failed", "deleted")):
        await stage.waiting_pod(manifests.pod(f"p{at + 1}"))
        await (stage.delete(f"p{at}") if end == "deleted" else stage.end(f"p{at}", end))
        await stage.until_bound(f"p{at + 1}")
