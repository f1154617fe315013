"""Whoever gets hold of the operator's token can do little more than the operator does."""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from e2e import attempts, operator_attempts
from e2e.attempts import MERGE, Attempt, Ground
from e2e.conditions import condition
from e2e.operator_attempts import C, D, G, L, N, P, V
from e2e.stage import Stage
from support import manifests, storage


@pytest.fixture
async def ground(stage: Stage) -> AsyncIterator[Ground]:
    """Yield a waiting and a bound pod, a Device, a GpuPod, a policy and the operator's Lease."""
    mine = f"mine-{secrets.token_hex(3)}"
    async with stage.session(names.OPERATOR_ACCOUNT) as operator:
        machine = f"machine-{secrets.token_hex(3)}"
        known = {"mine": mine, "leader": names.LEADER_LEASE, "machine": machine}
        known |= {name: f"{name}-{mine}" for name in ("volume", "expected", "owned")}
        lent = Ground(stage, operator, known, {L: names.SYSTEM_NAMESPACE})
        await furnish(lent)
        yield lent
    gone = (D, "mine"), (resources.POLICIES, "mine"), (N, "machine")
    for resource, which in (*gone, (V, "volume"), (V, "expected"), (V, "owned")):
        await stage.admin.send("DELETE", lent.path(resource, which))
    await stage.vacate()


async def furnish(ground: Ground) -> None:
    """Make it all, with what people, agents and kubelets have written."""
    for name in ("waiting", "bound"):
        made = manifests.pod(name, schedulerName="somebody-else", annotations={"k": "v"})
        made["metadata"]["labels"] = {"team": "a"}
        await ground.stage.create(made)
    await ground.stage.bind("bound", "nowhere")
    await ground.stage.patch(P, "waiting", operator_attempts.told(operator_attempts.GATE), sub="status")
    machine = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "<machine>"}}
    await ground.admin.create(N, ground.filled(machine))
    body = msgspec.json.encode({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}})
    await ground.admin.send("PATCH", ground.path(N, "machine", "status"), body=body, content=MERGE)
    await ground.admin.create(D, ground.filled(attempts.device("mine")))
    sick = {"devices": [{"uuid": "GPU-<mine>", "health": "Unhealthy", "reason": "Test"}]}
    status = {"conditions": [attempts.NVML, attempts.READY], "summary": attempts.SUMMARY, **sick}
    where = ground.path(D, "mine", "status")
    body = msgspec.json.encode(ground.filled({"status": status}))
    await ground.admin.send("PATCH", where, body=body, content=MERGE)
    await ground.admin.create(G, ground.filled(attempts.gpupod("mine")), namespace=ground.stage.namespace)
    await ground.admin.create(
        resources.POLICIES, ground.filled(attempts.named("PlacementPolicy", "mine", spec={}))
    )
    await furnish_storage(ground)
    with contextlib.suppress(errors.Conflict):
        await ground.admin.create(L, operator_attempts.lease(), namespace=names.SYSTEM_NAMESPACE)


async def furnish_storage(ground: Ground) -> None:
    """Make claims, one of which has a node, and volumes, of which some are meant for claims.

    The volumes are smaller than the claims, or the controller manager would bind some of them meanwhile.
    """
    for name, noted in {"claim": {}, "selected": {storage.SELECTED: "n1", "k": "v"}}.items():
        claim = storage.claim(name, "late")
        claim["metadata"]["annotations"] = noted
        await ground.admin.create(C, claim, namespace=ground.stage.namespace)
    whose = {"volume": {}, "expected": operator_attempts.meant(), "owned": operator_attempts.meant()}
    for name, change in whose.items():
        volume = storage.volume(f"<{name}>", "late", {"zone": "a"})
        volume["spec"]["capacity"]["storage"] = "1Mi"
        volume["spec"] |= change.get("spec", {})
        if name == "expected":
            del volume["spec"]["claimRef"]["uid"]
        await ground.admin.create(V, ground.filled(volume))


async def test_the_operator_may_write(ground: Ground, subtests: pytest.Subtests) -> None:
    """What the work of the operator takes is not in its way."""
    await attempts.would_work(ground, operator_attempts.ALLOWED, subtests)


async def test_the_operator_may_not_write(ground: Ground, subtests: pytest.Subtests) -> None:
    """All else is refused, in a sentence that says what is whose, and changes nothing."""
    await attempts.are_refused(ground, operator_attempts.REFUSED, subtests)


async def test_no_field_of_a_pods_status_is_forgotten(ground: Ground) -> None:
    """Of all fields that this server knows none is changed by the operator, but for one condition."""
    answer = json.loads(await ground.admin.send("GET", "/openapi/v3/api/v1"))
    fields = answer["components"]["schemas"]["io.k8s.api.core.v1.PodStatus"]["properties"]
    before = await ground.read(P, "waiting")

    for field, value in operator_attempts.STATUS_FIELDS.items():
        with contextlib.suppress(errors.Forbidden, errors.Invalid):
            await operator_attempts.on_pod(operator_attempts.told(**{field: value}), "").make(ground)

    assert fields.keys() - {"conditions"} == operator_attempts.STATUS_FIELDS.keys()
    assert await ground.read(P, "waiting") == before


BESIDE_A_STATUS: Final = {
    "a pod's spec": Attempt(P, "waiting", {"spec": {"priority": 7, "nodeName": "n"}}, sub="status"),
    "an owner": Attempt(
        P, "waiting", attempts.owned(attempts.POD_OWNER | {"name": "p", "uid": "u"}), sub="status"
    ),
    "a Device's spec": Attempt(D, "mine", {"spec": {"cordon": ["GPU-<mine>"]}}, sub="status"),
    "a Device's label": Attempt(D, "mine", {"metadata": {"labels": {"a": "b"}}}, sub="status"),
    "a policy's spec": Attempt(resources.POLICIES, "mine", {"spec": {"strategy": "spread"}}, sub="status"),
}


async def test_a_status_carries_nothing_else(ground: Ground, subtests: pytest.Subtests) -> None:
    """What would be smuggled in beside a status is dropped by the server, or refused."""
    for title, attempt in BESIDE_A_STATUS.items():
        before = await ground.read(attempt.resource, attempt.which)
        with subtests.test(title):
            with contextlib.suppress(errors.Forbidden, errors.Invalid):
                await attempt.make(ground)
            assert await ground.read(attempt.resource, attempt.which) == before


async def test_a_pod_that_ends_may_be_told_why_it_waits(ground: Ground) -> None:
    """A verdict on a pod that is being deleted is no change of its metadata."""
    await ground.stage.patch(P, "waiting", {"metadata": {"finalizers": ["example.com/f"]}})
    await ground.stage.delete("waiting")

    await operator_attempts.ALLOWED["why a pod waits"].make(ground)

    told = condition(await ground.read(P, "waiting"), "PodScheduled")
    assert operator_attempts.VERDICT.items() <= told.items()
    await ground.stage.patch(P, "waiting", {"metadata": {"finalizers": None}})


async def test_the_operator_makes_its_lease_and_nothing_on_it(ground: Ground) -> None:
    """A new Lease is as bare as an old one."""
    await ground.admin.send("DELETE", ground.path(L, "leader"))

    for metadata in ({"labels": {"a": "b"}}, {"finalizers": ["example.com/f"]}):
        await attempts.is_refused(
            ground,
            Attempt(
                L, "leader", operator_attempts.lease(**metadata), verb="POST", words=operator_attempts.BARE
            ),
        )

    await attempts.works(
        ground, Attempt(L, "leader", operator_attempts.lease(annotations={"a": "b"}), verb="POST")
    )


async def test_what_people_put_on_the_lease_does_not_cost_the_lead(ground: Ground) -> None:
    """A renewal writes the Lease anew; that a label is not in it is no crime."""
    await Attempt(L, "leader", {"metadata": {"labels": {"a": "b"}}}).make(ground.by(ground.admin))

    await attempts.works(ground, operator_attempts.ALLOWED["to renew its Lease"])


async def test_others_are_not_held_to_it(ground: Ground) -> None:
    """Kubelets and people write what is theirs: the bounds are those of the operator's account alone."""
    person = ground.by(ground.admin)

    await attempts.works(person, operator_attempts.REFUSED["phase of a pod"])
    await attempts.works(person, operator_attempts.REFUSED["a verdict on a card"])
