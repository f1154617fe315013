"""Berth answers to the names of schedulers that it is told, and to no others."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from berth_crds import flags, names
from berth_crds.client import api
from berth_operator import settings
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds
from berth_operator.translate import pods, raw
from kube import auditing
from kube.auditing import NODE, Cluster
from support import clock, manifests, stub, timeless

OTHER: Final = "koord-scheduler"
BOTH: Final = frozenset({OTHER, names.SCHEDULER_NAME})
MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"


def pod(scheduler: str, *, uid: str = "u-1", **spec: Any) -> dict[str, Any]:
    """Make a pod of a scheduler, as the server shows it."""
    made = manifests.pod(uid, schedulerName=scheduler, **spec)
    made["metadata"] |= {"namespace": "ml", "uid": uid, "resourceVersion": "5"}
    return made


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
    sink = feeds.PodSink(ledger, auditor.NullObserver(), schedulers=answering)

    sink.upserted(read(pod(scheduler)))

    assert ("u-1" in ledger.backlog) == waits


def test_a_bound_pod_of_a_named_scheduler_is_read_as_one_of_ours() -> None:
    """What it holds, and what is kept back for it, does not depend on how its scheduler is called."""
    views = [
        pods.classify(pods.adopt(read(pod(scheduler, nodeName=NODE)), BOTH))
        for scheduler in (OTHER, names.SCHEDULER_NAME)
    ]

    assert views[0] == views[1]
    assert views[0] != pods.classify(read(pod(OTHER, nodeName=NODE)))


async def test_the_audit_answers_to_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting pod of a named scheduler is no drift: the second ledger has it, too."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    ledger = Ledger(time.monotonic)
    watchdog = Watchdog(ledger, clock=time.monotonic)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        Cluster(server).pods[:] = [pod(OTHER)]
        following = feeds.Feeds(session, ledger, watchdog, auditor.NullObserver(), feeds.Options(BOTH))
        audit = auditing.audit_of(session, ledger, following)
        audit.schedulers = BOTH
        async with timeless.beside(following.run()):
            await asyncio.wait_for(following.wait_synced(), 5)
            found = await audit.audit()

    assert "u-1" in ledger.backlog
    assert found == ()


def test_the_flag_is_a_list_of_names() -> None:
    """Names are separated by commas; without the flag there is Berth's own."""
    found = settings.parse(["--scheduler-names", " koord-scheduler,berth-scheduler, "], {})

    assert found.scheduler_names == BOTH
    assert settings.parse([], {}).scheduler_names == pods.DEFAULT_SCHEDULERS
    assert settings.parse([], {"BERTH_SCHEDULER_NAMES": "volcano"}).scheduler_names == {"volcano"}


def test_a_list_without_names_is_refused() -> None:
    """An operator that answers to nobody would wait for ever."""
    with pytest.raises(flags.UsageError, match="argument --scheduler-names: ' , ' names no scheduler"):
        settings.parse(["--scheduler-names", " , "], {})


def test_names_that_no_comma_separates_are_refused() -> None:
    """It would be one name, which no pod has."""
    with pytest.raises(flags.UsageError, match="--scheduler-names: 'a b' is not one name; separate names by"):
        settings.parse(["--scheduler-names", "c,a b"], {})


def test_the_page_names_each_place_to_edit() -> None:
    """Whoever follows the page finds its list, and no manifest with the name is left out."""
    page = (MANIFESTS / "migrating.md").read_text()
    mentioned = [
        path.name
        for path in sorted(MANIFESTS.glob("*.yaml"))
        if any(names.SCHEDULER_NAME in str(part) for part in yaml.safe_load_all(path.read_text()))
    ]

    assert mentioned == ["admission.yaml"]
    assert all(name in page for name in mentioned)
    lists = re.findall(r"in \['berth-scheduler'\]", (MANIFESTS / "admission.yaml").read_text())
    assert len(lists) == 1
    assert "`in ['berth-scheduler']`" in page
    assert "`berth-new-pods`" in page
    assert "--scheduler-names" in page
