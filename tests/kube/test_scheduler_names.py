"""Berth answers to the names of schedulers that it is told, and to no others."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from berth_crds import flags, names
from berth_crds.client import api
from berth_operator import settings
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds, sinks
from berth_operator.scheduling import holds
from berth_operator.translate import pods, raw
from kube import following
from support import clock, stub

OTHER: Final = "koord-scheduler"
BOTH: Final = frozenset({OTHER, names.SCHEDULER_NAME})
MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"


def pod(scheduler: str, **spec: Any) -> dict[str, Any]:
    """Return a pod of a scheduler, as the server shows it."""
    return following.pod("p", "u-1", schedulerName=scheduler, **spec)


def read(body: dict[str, Any]) -> raw.Pod:
    """Read a pod as the informer does."""
    return msgspec.convert(body, raw.Pod)


@pytest.mark.parametrize(
    ("scheduler", "answering", "waits"),
    [
        pytest.param(names.SCHEDULER_NAME, pods.DEFAULT_SCHEDULERS, True, id="Berth's by default"),
        pytest.param(OTHER, pods.DEFAULT_SCHEDULERS, False, id="another's by default"),
        pytest.param(OTHER, BOTH, True, id="one that was named"),
        pytest.param(names.SCHEDULER_NAME, BOTH, True, id="Berth's beside it"),
        pytest.param("volcano", BOTH, False, id="one that was not named"),
        pytest.param("", BOTH, False, id="none"),
    ],
)
def test_pods_of_named_schedulers_wait_for_berth(
    scheduler: str, answering: frozenset[str], *, waits: bool
) -> None:
    """A pod whose schedulerName is in the list is in the backlog, and no other is."""
    ledger = Ledger(clock.Clock())
    sink = sinks.PodSink(ledger, auditor.NullObserver(), schedulers=answering)

    sink.upserted(read(pod(scheduler)))

    assert ("u-1" in ledger.backlog) == waits


def test_a_bound_pod_of_a_named_scheduler_is_read_as_one_of_ours() -> None:
    """What it holds, and what is kept back for it, does not depend on how its scheduler is called.

    Only where it has no word of Berth's another scheduler may have bound it, as long as that was there.
    """
    other, ours = (read(pod(name, nodeName="n1")) for name in (OTHER, names.SCHEDULER_NAME))
    bare = [pods.classify(one) for one in (pods.adopt(other, BOTH), ours, other)]
    for one in (other, ours):
        one.metadata.annotations[names.ALLOCATION] = "{"

    assert [one.hold.withheld for one in bare if isinstance(one, pods.BoundPod)] == [1, holds.ALL_CARDS, 1]
    assert bare[0] != bare[2]
    assert pods.classify(pods.adopt(other, BOTH)) == pods.classify(pods.adopt(ours, BOTH))


async def test_the_audit_answers_to_the_same_names(
    server: stub.Stub, stub_session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting pod of a named scheduler is no drift: the second ledger has it, too."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    following.Cluster(server).pods[:] = [pod(OTHER)]
    follower = following.Follower(stub_session, options=feeds.Options(BOTH))
    async with follower.following():
        found = await follower.auditor.audit()

    assert "u-1" in follower.ledger.backlog
    assert found == ()


def test_the_flag_is_a_list_of_names() -> None:
    """Names are separated by commas; without the flag there is Berth's own."""
    found = settings.parse(["--scheduler-names", " koord-scheduler,berth-scheduler, "], {})

    assert found.scheduler_names == BOTH
    assert settings.parse([], {}).scheduler_names == pods.DEFAULT_SCHEDULERS
    assert settings.parse([], {"BERTH_SCHEDULER_NAMES": "volcano"}).scheduler_names == {"volcano"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param(" , ", "' , ' names no scheduler", id="no name"),
        pytest.param("c,a b", "'a b' is not one name; separate names by", id="no comma"),
    ],
)
def test_a_list_without_names_is_refused(value: str, fault: str) -> None:
    """An operator that answers to nobody, or to a name that no pod has, would wait for ever."""
    with pytest.raises(flags.UsageError, match=f"argument --scheduler-names: {fault}"):
        settings.parse(["--scheduler-names", value], {})


def test_the_page_names_each_place_to_edit() -> None:
    """Whoever follows the page finds its list, and none with the name is left out; the chart has a value."""
    page = (MANIFESTS / "migrating.md").read_text()
    mentioned = [
        str(path.relative_to(MANIFESTS))
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        if not {"examples", "chart", "kustomize"} & set(path.relative_to(MANIFESTS).parts)
        and any(names.SCHEDULER_NAME in str(part) for part in yaml.safe_load_all(path.read_text()))
    ]

    assert mentioned == ["admission.yaml", "env-delivery.yaml", "webhook/configuration.yaml"]
    assert all(f"`{name}`" in page for name in mentioned)
    for name in mentioned:
        for part in yaml.safe_load_all((MANIFESTS / name).read_text()):
            if "in ['berth-scheduler']" in str(part):
                assert f"`{part['metadata']['name']}`" in page
    assert "`in ['berth-scheduler']`" in page
    assert "--scheduler-names" in page
