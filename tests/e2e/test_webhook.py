"""The webhook for API servers that have no policies: asked by a real one, it does what the policies do."""

import asyncio
import base64
import contextlib
import datetime as dt
import http
import signal
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from berth_crds import names
from berth_crds.client import resources
from berth_operator.admission import certificate_keeper, certificates
from berth_operator.admission.certificate_keeper import CertificateKeeper
from berth_operator.admission.certificates import ServingCertificate
from e2e import webhooks
from e2e.stage import Stage, Thing
from e2e.webhooks import LABEL, SCHEDULER, Replicas, configuration
from support import kubelet, manifests
from testbed import pages, ports, processes, waiting

OWN: Final = [{"name": "FIRST", "value": "1"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


@pytest.fixture
def installed(stage: Stage) -> Iterator[Stage]:
    """Yield a stage where the webhook is installed."""
    with webhooks.installed(stage):
        yield stage


@pytest.fixture
async def replicas(installed: Stage) -> Replicas:
    """Return two operators that serve the webhook."""
    asked = Replicas(installed)
    await asked.start()
    return asked


def containers(spec: Thing) -> list[tuple[str, Any]]:
    """Return the environment of each container of a pod."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [(one["name"], one.get("env")) for kind in kinds for one in spec.get(kind, ())]


def pods(scheduler: str) -> dict[str, Thing]:
    """Return pods that differ in what they bring along."""

    def one(name: str, **fields: Any) -> Thing:
        return {"name": name, "image": "example.com/work"} | fields

    shapes: dict[str, Thing] = {
        "plain": {},
        "own": {"containers": [one("main", env=OWN), one("idle", env=[])]},
        "init": {"initContainers": [one("once", env=OWN), one("side", restartPolicy="Always")]},
    }
    return {
        f"{name}-{scheduler}": manifests.pod(f"{name}-{scheduler}", 0, schedulerName=scheduler, **shape)
        for name, shape in shapes.items()
    }


@contextlib.contextmanager
def frozen(program: processes.Program) -> Iterator[None]:
    """Stop a program for the block, and let it go on."""
    program.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        program.process.send_signal(signal.SIGCONT)


@pytest.mark.slow
async def test_each_replica_does_what_the_policies_do(replicas: Replicas) -> None:
    """Leader or not, for new pods, for containers that are added, and where a namespace is Berth's."""
    stage = replicas.stage
    await stage.machines(kubelet.FakeNode("n"))
    by_policy = await _made(stage, names.SCHEDULER_NAME)
    assert "fieldRef" in str(by_policy)
    for number in range(2):
        replicas.ask(number)
        await asyncio.sleep(1)  # The server goes by its own copy of the configuration.
        with frozen(replicas.programs[1 - number]):  # It is this replica that answers.
            by_webhook = await _made(stage, SCHEDULER)
        assert by_webhook == by_policy

    stage.cluster.kubectl("label", "namespace", stage.namespace, *(f"{k}={v}" for k, v in LABEL.items()))
    claimed = await stage.until("the server to see the label", lambda: _claimed(stage))
    assert "NVIDIA_VISIBLE_DEVICES" in str(claimed["spec"]["containers"])


async def _made(stage: Stage, scheduler: str) -> list[list[tuple[str, Any]]]:
    """Make pods of a scheduler, and return what the server made of their containers."""
    bodies = pods(scheduler)
    await stage.create(*bodies.values())
    added = {"name": "look", "image": "example.com/work", "env": OWN}
    for name in bodies:
        change = {"spec": {"ephemeralContainers": [added]}}
        await stage.patch(resources.PODS, name, change, sub="ephemeralcontainers")
    found = await stage.pods()
    await stage.delete(*bodies)
    await stage.until_gone(*bodies)
    return [containers(found[name]["spec"]) for name in bodies]


async def _claimed(stage: Stage) -> Thing | None:
    """Return a pod that named no scheduler, once one becomes Berth's."""
    pod = manifests.pod(f"bare-{len(await stage.pods())}", 0)
    del pod["spec"]["schedulerName"]
    await stage.create(pod)
    made = (await stage.pods())[pod["metadata"]["name"]]
    return made if made["spec"]["schedulerName"] == names.SCHEDULER_NAME else None


@pytest.mark.slow
async def test_a_renewed_certificate_costs_no_pod(replicas: Replicas) -> None:
    """While it is renewed pods are made all the time, and in the end another certificate is shown."""
    before = await _shown(replicas.ports[0])
    failures: list[str] = []
    stop = asyncio.Event()

    async def keep_asking() -> None:
        while not stop.is_set():
            failures.append(await replicas.refusal())
            await asyncio.sleep(0.2)

    asking = asyncio.create_task(keep_asking())
    path = certificate_keeper.SECRETS.path(certificate_keeper.SECRET, namespace=names.SYSTEM_NAMESPACE)
    spoiled = b'{"data": {"tls.key": ""}}'
    await replicas.stage.admin.send("PATCH", path, body=spoiled, content="application/merge-patch+json")

    async def renewed() -> bool:
        return all([await _shown(port) != before for port in replicas.ports])

    await replicas.stage.until("both replicas to show another certificate", renewed, seconds=90)
    enough = len(failures) + 20
    await replicas.stage.until("more pods to be made", lambda: _as_many(failures, enough))
    stop.set()
    await asking

    assert not any(failures), set(failures)
    assert await _shown(replicas.ports[0]) == await _shown(replicas.ports[1])


async def _as_many(found: Sequence[str], count: int) -> bool:
    return len(found) >= count


async def _shown(port: int) -> str:
    """Return the certificate that a replica shows."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("localhost", port), timeout=5)


@pytest.mark.slow
async def test_a_replica_is_ready_once_it_can_be_asked(installed: Stage) -> None:
    """It leads and binds before, but whoever installs it waits until pods of Berth's can be made."""
    stage, webhook, probes = installed, ports.free(), ports.free()
    await stage.deciding_operator(
        *("--listen-webhook", f"127.0.0.1:{webhook}", "--listen-probes", f"127.0.0.1:{probes}")
    )
    assert pages.get(probes, "/readyz")[0] == http.HTTPStatus.SERVICE_UNAVAILABLE

    stage.cluster.apply(configuration(webhook))
    await waiting.eventually(
        lambda: pages.get(probes, "/readyz")[0] == http.HTTPStatus.OK,
        what="the operator to be ready",
        seconds=60,
    )


@pytest.mark.slow
async def test_of_two_that_renew_at_once_one_wins(installed: Stage) -> None:
    """Each shows nothing that the API server did not trust before, whatever the other does."""
    stage = installed
    stage.cluster.apply(configuration(ports.free()))
    used: list[list[ServingCertificate]] = [[], []]
    now = dt.datetime.now(dt.UTC)
    keepers = [CertificateKeeper(stage.admin, one.append, wall=lambda: now) for one in used]

    async def bundle() -> bytes:
        found = await stage.admin.get(
            certificate_keeper.CONFIGURATIONS,
            certificate_keeper.CONFIGURATION,
            into=certificate_keeper.Configuration,
        )
        bundles = {one.client_config.ca_bundle for one in found.webhooks or ()}
        assert len(bundles) == 1
        return base64.b64decode(bundles.pop())

    for days, trusted in ((0, 1), (65, 2), (65, 2)):
        now += dt.timedelta(days=days)
        before = [list(one) for one in used]
        assert await asyncio.gather(*(one.reconcile() for one in keepers)) == [False, False]
        assert used == before  # Nothing is shown in the look in which it is made.
        looks = [await asyncio.gather(*(one.reconcile() for one in keepers)) for _ in range(3)]
        assert looks[-1] == [True, True]
        assert used[0] == used[1]
        assert len(used[0]) == len(before[0]) + 1
        assert len(certificates.still_valid(await bundle(), now)) == trusted
        assert used[0][-1].certificate in await bundle()
