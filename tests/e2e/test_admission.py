"""What the API server itself refuses: binds of a deposed leader, and answers that are not Berth's."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, errors, resources
from e2e.stage import Stage, Thing
from support import kubelet, manifests

FENCED: Final = {names.FENCED_LABEL: "true"}


@pytest.fixture
async def operator(stage: Stage) -> AsyncIterator[api.Api]:
    """Yield a session with the operator's own account, to send what a confused operator would."""
    async with stage.session(names.OPERATOR_ACCOUNT) as session:
        yield session
    await stage.vacate()


async def bind(
    stage: Stage,
    session: api.Api,
    name: str,
    *,
    node: str = "elsewhere",
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> None:
    """Send a Binding."""
    meta = {"name": name, "labels": labels, "annotations": annotations}
    body = msgspec.json.encode({"metadata": meta, "target": {"kind": "Node", "name": node}})
    path = resources.PODS.path(name, namespace=stage.namespace, sub="binding")
    await session.send("POST", path, body=body)


async def refusal(work: Awaitable[Any]) -> str:
    """Do what must be refused, and give the sentence."""
    with pytest.raises((errors.Forbidden, errors.Invalid)) as caught:
        await work
    return str(caught.value)


async def give_lead(stage: Stage, holder: str, transitions: int) -> None:
    """Write the leader's Lease by hand, as if an operator had taken the lead."""
    where = {"namespace": names.SYSTEM_NAMESPACE}
    meta = {"name": names.LEADER_LEASE, **where}
    spec = {"holderIdentity": holder, "leaseTransitions": transitions, "leaseDurationSeconds": 6}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    with contextlib.suppress(errors.NotFound):
        await stage.admin.delete(resources.LEASES, names.LEADER_LEASE, **where)
    await stage.admin.create(resources.LEASES, lease, **where)


async def eventually_bound(stage: Stage, session: api.Api, name: str, term: str) -> None:
    """Bind as soon as the server has noticed who leads."""

    async def bound() -> bool:
        with contextlib.suppress(errors.Forbidden, errors.Invalid):
            await bind(stage, session, name, labels=FENCED, annotations={names.TERM: term})
            return True
        return False

    await stage.until(f"{name} to be bound in {term}", bound)


# ---------------------------------------------------------------- the fence


async def test_a_deposed_leader_is_refused(stage: Stage, operator: api.Api) -> None:
    """A bind passes while its term, holder and number, is what the Lease names, and never afterwards (I7)."""
    await stage.create(manifests.pod("early", 0), manifests.pod("late", 0), manifests.pod("next", 0))
    await give_lead(stage, "a", 7)
    await eventually_bound(stage, operator, "early", "a/7")

    await give_lead(stage, "b", 8)
    await eventually_bound(stage, operator, "next", "b/8")

    for term in ({names.TERM: "a/7"}, {names.TERM: "b/9"}, {names.TERM: "a/8"}, {names.TERM: ""}, {}):
        said = await refusal(bind(stage, operator, "late", labels=FENCED, annotations=term))
        assert "this bind is not of the term that the leader's Lease names now" in said, term
    assert set(await stage.bound()) == {"early", "next"}


async def test_without_our_lease_only_our_binds_are_refused(stage: Stage, operator: api.Api) -> None:
    """With Berth's Lease gone and no operator there, other schedulers go on undisturbed."""
    await stage.create(manifests.pod("ours", 0), manifests.pod("theirs", 0, schedulerName="somebody-else"))
    with contextlib.suppress(errors.NotFound):
        await stage.admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)

    async def misses_it() -> bool:
        with contextlib.suppress(errors.NotFound):
            binding = bind(stage, operator, "ours", labels=FENCED, annotations={names.TERM: "a/7"})
            return "no params found" in await refusal(binding)
        return False

    assert await stage.until("the server to miss the Lease", misses_it)
    await bind(stage, stage.admin, "theirs")
    assert set(await stage.bound()) == {"theirs"}


async def test_a_bind_carries_nothing_else(stage: Stage, operator: api.Api) -> None:
    """With a bind nobody changes what others have written on the pod; where the node is may be added."""
    await stage.create(manifests.pod("known", 0), manifests.pod("p", 0, annotations={"k": "v"}))
    await give_lead(stage, "a", 1)
    await eventually_bound(stage, operator, "known", "a/1")
    term, zone = {names.TERM: "a/1"}, {"topology.kubernetes.io/zone": "z"}

    said = [
        await refusal(bind(stage, operator, "p", labels=FENCED | more, annotations=term))
        for more in ({"team": "b"}, {"berth.dev/other": "true"})
    ]
    said.append(await refusal(bind(stage, operator, "p", labels=FENCED, annotations=term | {"k": "w"})))
    await bind(stage, operator, "p", labels=FENCED | zone, annotations=term | zone)

    assert all("no other labels and annotations" in sentence for sentence in said)
    assert (await stage.pods())["p"]["metadata"]["annotations"]["k"] == "v"


# ---------------------------------------------------------------- who may answer


async def test_nobody_else_answers(stage: Stage, operator: api.Api) -> None:
    """A Binding with our label or our annotations comes from our operator, and all of its own carry both."""
    await stage.create(manifests.pod("p", 0), manifests.pod("known", 0))
    await give_lead(stage, "a", 1)
    await eventually_bound(stage, operator, "known", "a/1")

    uuids = {names.container_key("main", "uuids"): "GPU-1"}
    refused = {
        "only Berth's operator may bind with the label": bind(
            stage, stage.admin, "p", labels=FENCED, annotations={names.TERM: "a/1"}
        ),
        "only Berth's operator may write what a pod holds": bind(
            stage, stage.admin, "p", annotations={names.MINORS: "0"}
        ),
        "may write what a pod holds": bind(stage, stage.admin, "p", annotations=uuids),
        "must bind with the label": bind(stage, operator, "p"),
    }

    for sentence, binding in refused.items():
        assert sentence in await refusal(binding)
    assert set(await stage.bound()) == {"known"}


async def test_a_new_pod_brings_no_answer_along(stage: Stage) -> None:
    """A pod made from what `kubectl get` printed of another one is refused, and told what to remove."""
    for key in (names.ALLOCATION, names.MINORS, names.TERM, names.container_key("main", "uuids")):
        said = await refusal(stage.create(manifests.pod("copied", annotations={key: "0"})))
        assert "please remove the annotations berth.dev/allocation" in said, key

    await stage.create(manifests.pod("asking", annotations={names.MODEL: "t4", "example.com/minors": "0"}))


async def test_a_new_pod_of_ours_brings_no_node_along(stage: Stage) -> None:
    """Nobody would give it devices, and it would keep back those that it asks for; others go as they like."""
    await stage.machines(kubelet.FakeNode("n"))

    said = await refusal(stage.create(manifests.pod("placed", nodeName="n")))
    await stage.create(manifests.pod("theirs", nodeName="n", schedulerName="default-scheduler"))

    assert "please leave out spec.nodeName" in said
    assert set(await stage.pods()) == {"theirs"}


# ---------------------------------------------------------------- what is held stays as it is

CHANGES: Final = (
    {names.ALLOCATION: "{}"},
    {names.MINORS: None},
    {names.TERM: "x/1"},
    {names.container_key("main", "uuids"): "GPU-1"},
    {names.container_key("other", "uuids"): "GPU-1"},
)


async def annotations(stage: Stage) -> dict[str, str]:
    """Read the annotations of the pod that holds a card."""
    return dict((await stage.pods())["holder"]["metadata"]["annotations"])


async def annotate(stage: Stage, values: Thing, *, sub: str) -> None:
    """Change annotations through the pod itself or one of its subresources."""
    await stage.patch(resources.PODS, "holder", {"metadata": {"annotations": values}}, sub=sub)


@pytest.mark.usefixtures("leader")
async def test_what_is_held_never_changes(stage: Stage) -> None:
    """No update changes, adds or removes an answer, by no subresource; other annotations are free (I3)."""
    await stage.nodes(holding="1xT4")
    await stage.placed(manifests.pod("holder"))
    before = await annotations(stage)

    for values in CHANGES:
        for sub in ("", "status"):
            assert "never changes" in await refusal(annotate(stage, values, sub=sub)), values
        for sub in ("resize", "ephemeralcontainers"):
            with contextlib.suppress(errors.Forbidden, errors.Invalid):
                await annotate(stage, values, sub=sub)
    for sub in ("", "status"):
        await annotate(stage, {f"example.com/{sub}note": "hello"}, sub=sub)

    notes = {"example.com/note": "hello", "example.com/statusnote": "hello"}
    assert await annotations(stage) == before | notes


async def test_a_pod_without_a_node_cannot_be_given_an_answer(stage: Stage) -> None:
    """Before it is bound, too, a pod gets no allocation but ours."""
    await stage.create(manifests.pod("forged", schedulerName="somebody-else"))

    said = await refusal(
        stage.patch(resources.PODS, "forged", {"metadata": {"annotations": {names.ALLOCATION: "{}"}}})
    )

    assert "never changes" in said
