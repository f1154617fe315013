"""What the agent measures, as Prometheus reads it."""

import dataclasses
from typing import Any

import aiohttp
import msgspec
import prometheus_client.parser
import pytest

from berth_agent import metrics, node_view, probe, simulated, web
from berth_crds import flags, wire
from support import nodes
from support.nvml import presets

VITALS = probe.Measurements(
    memory_reserved=1 << 29,
    memory_used=3 << 30,
    memory_free=5 << 30,
    utilization=97,
    memory_utilization=45,
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


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        """Return the present moment."""
        return self.now


def seen(node: str = "n1") -> node_view.NodeView:
    """Return a board with two cards on it, of which the first measures something."""
    first, second = simulated.machine(node, "2xA100-SXM4-80GB").answering_cards()
    sample = probe.Sample(wire.Driver(), "", (dataclasses.replace(first, measurements=VITALS), second))
    made = node_view.NodeView(node)
    made.record_sample(sample, 90.0)
    return made


def shown(
    *boards: node_view.NodeView, dcgm: bool = False
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Read all series as Prometheus would, by name and labels."""
    text = metrics.text(metrics.Collector(boards, clock=Clock(), dcgm=dcgm)).decode()
    families = prometheus_client.parser.text_string_to_metric_families(text)
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for sample in (one for family in families for one in family.samples):
        key = sample.name, frozenset(sample.labels.items())
        assert key not in found, f"{key} twice"
        found[key] = sample.value
    return found


def values(found: dict[Any, float], name: str, **labels: str) -> list[float]:
    """Return the values of a series with these labels among its own."""
    return [
        value for (one, its), value in found.items() if one == name and labels.items() <= dict(its).items()
    ]


def test_card_is_measured_in_units_of_dcgm() -> None:
    """MiB, watts, percent, degrees, MHz; a card that tells nothing has no series but its memory."""
    made = seen()
    assert made.sample is not None
    first, second = made.sample.answering_cards()
    found = shown(made)
    of_first = {
        name.removeprefix("berth_dev_"): value
        for (name, its), value in found.items()
        if name.startswith("berth_dev_") and dict(its).get("UUID") == first.uuid
    }

    assert of_first == {
        "fb_total": 81251.1875,
        "fb_reserved": 512,
        "fb_used": 3072,
        "fb_free": 5120,
        "gpu_util": 97,
        "mem_copy_util": 45,
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
    names = {name for name, its in found if dict(its).get("UUID") == second.uuid}
    assert names == {"berth_dev_fb_total", "berth_dev_health"}


def test_card_is_named_as_the_exporter_of_dcgm_does() -> None:
    """A dashboard joins by these labels, and finds the very names where that is wanted."""
    made = seen()
    card = next(made.sample.answering_cards()) if made.sample else None
    assert card is not None
    labels = {
        "gpu": "0",
        "UUID": card.uuid,
        "pci_bus_id": "0000:01:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-80GB",
        "Hostname": "n1",
    }
    assert shown(made)["berth_dev_fb_used", frozenset(labels.items())] == 3072
    made.last_xids[card.uuid] = 79
    theirs = shown(made, dcgm=True)
    assert theirs["DCGM_FI_DEV_FB_USED", frozenset(labels.items())] == 3072
    assert theirs["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", frozenset(labels.items())] == 5
    assert theirs["DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", frozenset(labels.items())] == 3
    assert theirs["DCGM_FI_DEV_XID_ERRORS", frozenset(labels.items())] == 79


def test_lost_card_leaves_no_old_numbers() -> None:
    """What a card measured before it was lost is not told as if it were so now; that it is ill is."""
    made = seen()
    assert made.sample is not None
    first, second = made.sample.answering_cards()
    lost = probe.LostCard(0, "GpuIsLost", "gone", first.uuid)
    made.record_sample(dataclasses.replace(made.sample, cards=(lost, second)), 95.0)
    verdict = wire.CardStatus(first.uuid, "Unhealthy", reason="GpuIsLost", xid=79, recovery="reboot")
    made.status = wire.DeviceStatus(devices=(verdict,))
    made.record_tick(seconds=0.5, now=96.0)

    found = shown(made)
    assert values(found, "berth_dev_fb_used") == []
    assert values(found, "berth_dev_health", UUID=first.uuid) == [0]
    assert values(found, "berth_dev_health", UUID=second.uuid) == [1]
    assert values(found, "berth_dev_unhealthy", reason="GpuIsLost", xid="79", recovery="reboot") == [1]


def test_errors_are_counted_by_number() -> None:
    """Each look adds what it was told."""
    made = seen()
    assert made.sample is not None
    uuid = next(made.sample.answering_cards()).uuid
    told = (probe.XidEvent(uuid, 63), probe.XidEvent(uuid, 63), probe.XidEvent(uuid, 79))
    for _ in range(2):
        made.record_sample(dataclasses.replace(made.sample, xids=told), 95.0)

    assert values(shown(made), "berth_dev_xid_errors_total", UUID=uuid, xid="63") == [4]
    assert values(shown(made), "berth_dev_xid_errors_total", UUID=uuid, xid="79") == [2]


def test_who_holds_a_card_is_told() -> None:
    """Namespace, pod and container with their share; a pod that has ended holds nothing."""
    made = seen()
    assert made.sample is not None
    uuid = next(made.sample.answering_cards()).uuid
    half = wire.HeldCard(uuid, 0, "gpu", core=50, memory=1 << 30)

    def pod(name: str, phase: str) -> wire.GpuPod:
        # A record may name a card twice, and other devices beside it.
        quarters = (msgspec.structs.replace(half, core=25),) * 2
        nic = wire.HeldCard("rdma-0", 0, "rdma", core=100, memory=0)
        spec = wire.GpuPodSpec("n1", f"uid-{name}", (wire.HoldingContainer("main", (*quarters, nic)),))
        return wire.GpuPod(wire.Meta(name=name, namespace="ml"), spec, wire.GpuPodStatus(phase=phase))

    made.gpupods = lambda: [pod("one", "Running"), pod("two", "Pending"), pod("old", "Succeeded")]
    found = shown(made)

    holders = {dict(its)["pod"]: value for (name, its), value in found.items() if name == "berth_dev_holder"}
    assert holders == {"one": 50, "two": 50}
    assert values(found, "berth_dev_holder", namespace="ml", pod="one", container="main", UUID=uuid) == [50]


def test_ages_grow_and_ticks_are_timed() -> None:
    """How old each source's last word is, and how long a tick takes on average."""
    made = seen()
    made.answered_at["podresources"] = 40.0
    for _ in range(4):
        made.record_tick(seconds=0.25, now=99.0)
    made.record_sample(probe.SourceFailed("Hung", "It hangs."), 100.0)

    found = shown(made)
    ages = {
        dict(its)["source"]: value
        for (name, its), value in found.items()
        if name == "berth_agent_source_age_seconds"
    }
    assert ages == {"nvml": 10, "podresources": 60, "api": 1}
    assert values(found, "berth_agent_tick_seconds_count") == [4]
    assert values(found, "berth_agent_tick_seconds_sum") == [1]


def test_several_nodes_of_one_process_are_told_apart() -> None:
    """One process may speak for several nodes; each has series of its own."""
    found = shown(seen("n1"), seen("n2"))

    assert {dict(its)["Hostname"] for name, its in found} == {"n1", "n2"}


def test_real_cards_have_every_measure(place: nodes.Place) -> None:
    """What the mock of NVML tells of a DGX is there for each of its cards."""
    made = node_view.NodeView("n1")
    made.record_sample(nodes.look(place(presets.DGX_A100).start()), 0.0)
    found = shown(made)

    names = {f"berth_dev_{measure.name.lower()}" for measure in metrics.MEASURES}
    for name in names:
        assert len(values(found, name) or values(found, f"{name}_total")) == 8, name


async def test_metrics_are_served() -> None:
    """Whoever asks over HTTP gets them, and an answer to whether the agent lives."""
    collector = metrics.Collector([seen()], clock=Clock())
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


async def test_address_that_is_taken_is_refused_in_a_sentence() -> None:
    """The program says which address, and why."""
    with pytest.raises(flags.UsageError, match=r"--listen 203\.0\.113\.1:1: "):
        async with web.serving("203.0.113.1:1"):
            raise AssertionError("it listens")


def test_status_from_the_api_is_told() -> None:
    """A Device that was read from the API can be told as well as one that was made here."""
    made = seen()
    body = msgspec.json.encode({"devices": [{"uuid": "GPU-x", "health": "Unhealthy"}]})
    made.status = msgspec.json.decode(body, type=wire.DeviceStatus)
    made.record_tick(seconds=0.1, now=100.0)

    assert values(shown(made), "berth_dev_health", UUID="GPU-x") == [0]


@pytest.mark.parametrize(("truth", "healthy"), [("True", [1, 1]), ("False", [0, 0]), ("Unknown", [1, 1])])
def test_no_card_is_healthy_while_the_source_fails(truth: str, healthy: list[int]) -> None:
    """What the last good look found is not told as if it were so now."""
    made = seen()
    made.status = wire.DeviceStatus(conditions=(wire.Condition("NVMLReady", truth, "FaultsUnreadable"),))

    assert values(shown(made), "berth_dev_health") == healthy
