"""Whatever happens to a machine, and in whatever order: the probe tells no lies and finds its way back."""

import contextlib
from collections.abc import Callable
from typing import Final

import hypothesis
from hypothesis import strategies as st

from berth_agent import device_spec, probe
from berth_crds import wire
from support import nodes, thorough
from support.nvml import machine, presets

LOOKS_TO_RECOVER: Final = 8
CARDS: Final = st.integers(0, 7)
CALLS: Final = st.sampled_from(
    [
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetTopologyCommonAncestor",
    ]
)
CODES: Final = st.sampled_from([1, 2, 3, 4, 6, 9, 13, 15, 16, 17, 999])

# Where a card that answers has no address, one that NVML does not count cannot be missed.
BLIND: Final = {("nvmlDeviceGetPciInfo_v3", 3), ("nvmlDeviceGetPciInfo_v3", 13)}
FAULTS: Final = st.tuples(CALLS, CODES).filter(lambda fault: fault not in BLIND)

Deed = Callable[[machine.Machine], None]

DEEDS: Final[st.SearchStrategy[Deed]] = st.one_of(
    CARDS.map(lambda card: lambda it: it.lose(card)),
    CARDS.map(lambda card: lambda it: it.find(card)),
    CARDS.map(lambda card: lambda it: it.reset(card)),
    CARDS.map(lambda card: lambda it: it.drop(card)),
    st.tuples(FAULTS, CARDS).map(lambda it: lambda on: on.fail(*it[0], card=it[1])),
    FAULTS.map(lambda fault: lambda on: on.fail(*fault)),
    st.sampled_from([9, 18, 999]).map(lambda code: lambda it: it.unload(code)),
    st.just(machine.Machine.load),
)


@hypothesis.settings(
    max_examples=thorough.examples(60),
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(deeds=st.lists(DEEDS, min_size=1, max_size=8))
def test_probe_is_truthful_and_recovers(place: nodes.Place, deeds: list[Deed]) -> None:
    """Through any faults each look is one outcome that is true, and once all is well so is the sample."""
    rig = place(presets.DGX_A100)
    with contextlib.closing(rig.start()) as looking:
        truth = nodes.look(looking)
        known = device_spec.spec(nodes.NODE, truth, None)
        for deed in deeds:
            deed(rig.machine)
            known = check(looking.sample(), truth, known)
        mend(rig.machine)

        found = [nodes.look(looking) for _ in range(LOOKS_TO_RECOVER)]
    assert found[-1] == truth
    assert device_spec.spec(nodes.NODE, found[-1], known) == device_spec.spec(nodes.NODE, truth, None)


def check(outcome: probe.Outcome, truth: probe.Sample, known: wire.DeviceSpec) -> wire.DeviceSpec:
    """Hold one outcome against what the machine is, and give the Device that follows from it."""
    spec = device_spec.spec(nodes.NODE, outcome, known)
    listed = {each.uuid for each in spec.devices}
    assert len({each.minor for each in spec.devices}) == len(listed) == len(spec.devices)
    assert all(link.peer in listed for each in spec.devices for link in each.links)
    if isinstance(outcome, probe.Sample):
        real = {card.uuid: card.model for card in truth.answering_cards()}
        assert all(real[card.uuid] == card.model for card in outcome.answering_cards())
        assert {each.uuid for each in outcome.lost_cards() if each.uuid} <= real.keys()
        assert not {each.uuid for each in outcome.lost_cards()} & {
            card.uuid for card in outcome.answering_cards()
        }
        assert len(outcome.cards) == len(truth.cards)
    return spec


def mend(broken: machine.Machine) -> None:
    """Make all well again."""
    faults = (".error", "error.", ".lost", ".absent", "driver.error")
    broken.change({key: None for key in broken.read() if any(fault in key for fault in faults)})
