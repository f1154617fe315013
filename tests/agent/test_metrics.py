"""What the agent measures, as Prometheus reads it."""

import dataclasses
from collections.abc import Mapping

import aiohttp
import prometheus_client.parser
import pytest

from berth_agent import metrics, node_view, probe, simulated, web
from berth_crds import flags, wire
from support import clock, nodes
from support.nvml import presets

MEASURED = probe.Measurements(
    memory_reserved=1 << 29,
    memory_used=3 << 30,
    memory_free=5 << 30,
    utilization=97,
    memory_utilization=45,
    encoder_utilization=12,
    decoder_utilization=34,
    power=251_500,
    power_limit=400_000,
    temperature=66,
    slowdown_temperature=95,
    core_clock=1410,
    memory_clock=1593,
    errors_corrected=5,
    errors_uncorrected=2,
    remapped_rows=probe.RemappedRows(3, 1, pending=True, failed=False),
)


FIRST, SECOND = simulated.machine("n1", "2xA100-SXM4-80GB").answering_cards()
SAMPLE = probe.Sample(wire.Driver(), "", (dataclasses.replace(FIRST, measurements=MEASURED), SECOND))

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]  # By name and labels.


@pytest.fixture
def view() -> node_view.NodeView:
    """Lend the view of a node with two cards, of which the first measures something."""
    view = node_view.NodeView("n1")
    view.record_sample(SAMPLE, 90.0)
    return view


def series(*views: node_view.NodeView, dcgm: bool = False) -> Series:
    """Read all series as Prometheus would."""
    text = metrics.text(metrics.Collector(views, clock=clock.Clock(100.0), dcgm=dcgm)).decode()
    families = prometheus_client.parser.text_string_to_metric_families(text)
    pairs = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in families
        for sample in family.samples
    ]
    assert len(dict(pairs)) == len(pairs), "a series is there twice"
    return dict(pairs)


def values(found: Series, name: str, **labels: str) -> list[float]:
    """Return the values of a series with these labels among its own."""
    return [
        value for (one, its), value in found.items() if one == name and labels.items() <= dict(its).items()
    ]


def by_label(found: Series, name: str, label: str) -> dict[str, float]:
    """Return the values of a series by one of its labels."""
    return {dict(its)[label]: value for (one, its), value in found.items() if one == name}


def test_card_is_measured_in_units_of_dcgm(view: node_view.NodeView) -> None:
    """MiB, watts, percent, degrees, MHz; a card that tells nothing has no series but its memory."""
    found = series(view)
    of_first = {
        name.removeprefix("berth_dev_"): value
        for (name, its), value in found.items()
        if ("UUID", FIRST.uuid) in its
    }

    assert of_first == {
        "fb_total": 81251.1875,
        "fb_reserved": 512,
        "fb_used": 3072,
        "fb_free": 5120,
        "gpu_util": 97,
        "mem_copy_util": 45,
        "enc_util": 12,
        "dec_util": 34,
        "power_usage": 251.5,
        "power_mgmt_limit": 400,
        "gpu_temp": 66,
        "slowdown_temp": 95,
        "sm_clock": 1410,
        "mem_clock": 1593,
        "ecc_sbe_vol_total": 5,
        "ecc_dbe_vol_total": 2,
        "correctable_remapped_rows_total": 3,
        "uncorrectable_remapped_rows_total": 1,
        "row_remap_pending": 1,
        "row_remap_failure": 0,
        "health": 1,
    }
    names = {name for name, its in found if ("UUID", SECOND.uuid) in its}
    assert names == {"berth_dev_fb_total", "berth_dev_health"}


def test_card_is_named_as_the_exporter_of_dcgm_does(view: node_view.NodeView) -> None:
    """A dashboard joins by these labels, and finds the very names where that is wanted."""
    labels = {
        "gpu": "0",
        "UUID": FIRST.uuid,
        "pci_bus_id": "0000:01:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-80GB",
        "Hostname": "n1",
    }
    view.last_xids[FIRST.uuid] = 79
    theirs = {
        name.removeprefix("DCGM_FI_DEV_"): value
        for (name, its), value in series(view, dcgm=True).items()
        if its == labels.items()
    }

    assert series(view)["berth_dev_fb_used", frozenset(labels.items())] == 3072
    assert theirs.items() >= {
        ("FB_USED", 3072),
        ("ECC_SBE_VOL_TOTAL", 5),
        ("CORRECTABLE_REMAPPED_ROWS", 3),
        ("XID_ERRORS", 79),
    }


def test_lost_card_leaves_no_old_numbers(view: node_view.NodeView) -> None:
    """What a card measured before it was lost is not told as if it were so now; that it is ill is."""
    lost = probe.LostCard(0, "GpuIsLost", "gone", FIRST.uuid)
    view.record_sample(dataclasses.replace(SAMPLE, cards=(lost, SECOND)), 95.0)
    verdict = wire.CardStatus(FIRST.uuid, "Unhealthy", reason="GpuIsLost", xid=79, recovery="reboot")
    view.status = wire.DeviceStatus(devices=(verdict, wire.CardStatus("GPU-x", "Unhealthy")))

    found = series(view)
    assert values(found, "berth_dev_fb_used") == []
    assert by_label(found, "berth_dev_health", "UUID") == {FIRST.uuid: 0, SECOND.uuid: 1, "GPU-x": 0}
    assert values(found, "berth_dev_unhealthy", reason="GpuIsLost", xid="79", recovery="reboot") == [1]


def test_errors_are_counted_by_number(view: node_view.NodeView) -> None:
    """Each look adds what it was told."""
    xids = tuple(probe.XidEvent(FIRST.uuid, number) for number in (63, 63, 79))
    for _ in range(2):
        view.record_sample(dataclasses.replace(SAMPLE, xids=xids), 95.0)

    assert by_label(series(view), "berth_dev_xid_errors_total", "xid") == {"63": 4, "79": 2}


def test_who_holds_a_card_is_told(view: node_view.NodeView) -> None:
    """Namespace, pod and container with their share; a pod that has ended holds nothing."""

    def pod(name: str, phase: str) -> wire.GpuPod:
        # A record may name a card twice, and other devices beside it.
        quarter = wire.HeldCard(FIRST.uuid, 0, "gpu", core=25, memory=1 << 30)
        nic = wire.HeldCard("rdma-0", 0, "rdma", core=100, memory=0)
        containers = (wire.HoldingContainer("main", (quarter, quarter, nic)),)
        spec = wire.GpuPodSpec("n1", f"uid-{name}", containers)
        return wire.GpuPod(wire.Meta(name=name, namespace="ml"), spec, wire.GpuPodStatus(phase=phase))

    view.gpupods = lambda: [pod("one", "Running"), pod("two", "Pending"), pod("old", "Succeeded")]
    found = series(view)

    assert by_label(found, "berth_dev_holder", "pod") == {"one": 50, "two": 50}
    holder = {"namespace": "ml", "pod": "one", "container": "main", "UUID": FIRST.uuid}
    assert values(found, "berth_dev_holder", **holder) == [50]


def test_ages_grow_and_ticks_are_timed(view: node_view.NodeView) -> None:
    """How old each source's last answer is, and how long a tick takes on average."""
    view.answered_at["podresources"] = 40.0
    for _ in range(4):
        view.record_tick(seconds=0.25, now=99.0)
    view.record_sample(probe.SourceFailed("Hung", "It hangs."), 100.0)

    found = series(view)
    ages = by_label(found, "berth_agent_source_age_seconds", "source")
    assert ages == {"nvml": 10, "podresources": 60, "api": 1}
    assert values(found, "berth_agent_tick_seconds_count") == [4]
    assert values(found, "berth_agent_tick_seconds_sum") == [1]


def test_several_nodes_of_one_process_are_told_apart(view: node_view.NodeView) -> None:
    """One process may speak for several nodes; each has series of its own."""
    other = node_view.NodeView("n2")
    other.record_sample(SAMPLE, 90.0)

    assert {dict(its)["Hostname"] for name, its in series(view, other)} == {"n1", "n2"}


def test_real_cards_have_every_measure(place: nodes.Place) -> None:
    """What the mock of NVML tells of a DGX is there for each of its cards."""
    view = node_view.NodeView("n1")
    view.record_sample(place(presets.DGX_A100).look(), 0.0)
    found = series(view)

    for measure in metrics.MEASURES:
        name = f"berth_dev_{measure.name.lower()}"
        assert len(values(found, name) or values(found, f"{name}_total")) == 8, name


async def test_metrics_are_served(view: node_view.NodeView) -> None:
    """Whoever asks over HTTP gets them, and an answer to whether the agent lives."""
    collector = metrics.Collector([view], clock=clock.Clock())
    route = web.metrics_route(lambda: metrics.text(collector), metrics.CONTENT_TYPE)
    async with web.serving("127.0.0.1:0", route) as address, aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/metrics") as answer:
            assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
            assert await answer.read() == metrics.text(collector)
        async with session.get(f"http://{address}/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "alive\n")
        async with session.get(f"http://{address}/") as answer:
            told = "/healthz  whether it is alive\n/metrics  for Prometheus\n"
            assert (answer.status, await answer.text()) == (200, told)


async def test_an_agent_is_ready_while_what_it_publishes_is_current(view: node_view.NodeView) -> None:
    """An update of a DaemonSet stops at an agent that cannot publish, however well that agent lives."""
    now = clock.Clock()
    route = web.ready_route(lambda: view.unready(now(), most=40))

    async with web.serving("127.0.0.1:0", route) as address, aiohttp.ClientSession() as session:

        async def told() -> tuple[int, str]:
            async with session.get(f"http://{address}/readyz") as answer:
                return answer.status, await answer.text()

        assert await told() == (503, "n1 has not been published yet.\n")
        view.record_tick(seconds=0.1, now=now())
        assert await told() == (200, "ready\n")
        now.advance(40)
        assert await told() == (200, "ready\n")
        now.advance(1)
        assert await told() == (503, "n1 was published 41 s ago and not since.\n")


async def test_address_that_is_taken_is_refused_in_a_sentence() -> None:
    """The program says which address, and why."""
    with pytest.raises(flags.UsageError, match=r"--listen 203\.0\.113\.1:1: "):
        async with web.serving("203.0.113.1:1"):
            raise AssertionError("it listens")


@pytest.mark.parametrize(("truth", "healthy"), [("True", [1, 1]), ("False", [0, 0]), ("Unknown", [1, 1])])
def test_no_card_is_healthy_while_the_source_fails(
    view: node_view.NodeView, truth: str, healthy: list[int]
) -> None:
    """What the last good look found is not told as if it were so now."""
    view.status = wire.DeviceStatus(conditions=(wire.Condition("NVMLReady", truth, "FaultsUnreadable"),))

    assert values(series(view), "berth_dev_health") == healthy
