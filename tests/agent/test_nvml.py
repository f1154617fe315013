"""What the probe for real cards makes of a driver and of cards that fail.

Each test is a trap in which an agent of some other project has sat, or a promise of the
contract: a source that fails is told and asked again, one card that fails never takes the
others with it, and nothing that is served is older than the look that serves it.
"""

import collections
import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pynvml
import pytest

from berth_agent import probe, sampler
from berth_agent.nvml import calls, nvml_probe
from berth_crds import vocabulary, wire
from support import nodes
from support.nvml import build, fixtures, machine, presets
from testbed import waiting

NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN = 3, 4, 13, 999


# ---------------------------------------------------------------- the source as a whole


def test_library_that_appears_is_found(tmp_path: Path) -> None:
    """Without a driver the probe says so; one installed after the agent was started is found as it runs."""
    fixtures.require()
    made = machine.Machine.make(tmp_path / "node", presets.A10)
    script = (
        "import ctypes, sys; from berth_agent import sysfs; from berth_agent.nvml import nvml_probe;"
        "probe = nvml_probe.NvmlProbe(sysfs.Kernel()); first = probe.sample();"
        "ctypes.CDLL(sys.argv[1]); print(first, len(probe.sample().cards), sep='\\n')"
    )
    first, cards = subprocess.run(
        [sys.executable, "-c", script, str(build.library())],
        env={**os.environ, "LD_LIBRARY_PATH": "", machine.VARIABLE: str(made.state)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    if first.startswith("Sample"):
        pytest.skip("this machine has a driver")
    assert "LibraryMissing" in first and "libnvidia-ml.so.1 is missing" in first
    assert cards == "8"


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        pytest.param(9, "DriverNotLoaded", "kernel driver is not loaded", id="driver not loaded"),
        pytest.param(18, "VersionMismatch", "restart the agent", id="versions differ"),
        pytest.param(NO_PERMISSION, "NoPermission", "/dev/nvidiactl", id="no permission"),
        pytest.param(UNKNOWN, "UnknownError", "nvmlInit failed: Unknown Error", id="anything else"),
    ],
)
def test_init_that_fails_is_told_and_tried_again(
    place: nodes.Place, code: int, reason: str, words: str
) -> None:
    """A library that does not open is a reason and a sentence, and the next look may find it open."""
    rig = place(presets.A10, {"error.nvmlInitWithFlags": code})

    for _ in range(2):
        found = nodes.failed(rig.source)
        assert found.reason == reason
        assert words in found.message
    rig.machine.fail("nvmlInitWithFlags", None)
    assert len(rig.look().cards) == 8


def test_driver_loaded_anew_between_looks_is_not_noticed(place: nodes.Place) -> None:
    """Handles from before a reload are dead; the probe opens the library anew within the same look."""
    rig = place(presets.DGX_A100)
    before = rig.look()
    rig.machine.load()
    assert rig.look() == before

    rig.machine.fail("nvmlDeviceGetCount_v2", 1)
    assert nodes.failed(rig.source).reason == "Uninitialized"
    rig.machine.fail("nvmlDeviceGetCount_v2", None)
    assert rig.look() == before


@pytest.mark.parametrize("remainder", range(5))
def test_driver_loaded_anew_in_the_middle_of_a_look_blames_no_card(
    place: nodes.Place, monkeypatch: pytest.MonkeyPatch, remainder: int
) -> None:
    """Cards that answer nothing because the library is outdated are not lost: it is opened anew."""
    rig = place(presets.DGX_A100)
    with contextlib.closing(rig.start()) as looking:
        before = nodes.look(looking)
        for number in itertools.count(remainder, 25):
            with at_call(number, rig.machine.load, monkeypatch) as done:
                found = looking.sample()
            if not done:
                assert number > len(before.cards), "a look makes more calls than there are cards"
                return
            assert isinstance(found, probe.SourceFailed) or found == before
            assert looking.sample() == before


@contextlib.contextmanager
def at_call(number: int, deed: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Do something just before that call of NVML, counted from now on; the list tells whether it was."""
    real, made = calls.ask, itertools.count()
    done: list[bool] = []

    def ask(call: Callable[..., Any], *arguments: Any) -> Any:
        if next(made) == number:
            deed()
            done.append(True)
        return real(call, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(calls, "ask", ask)
        yield done


def test_new_driver_is_told_at_once(place: nodes.Place) -> None:
    """Versions are those of now, not those of the first look."""
    rig = place(presets.A10)
    assert rig.look().driver == wire.Driver("550.107.02", "12.4")

    rig.machine.change({"driver.version": "580.65.06", "driver.cuda": 13000})
    assert rig.look().driver == wire.Driver("580.65.06", "13.0")
    rig.machine.change({"driver.cuda": None})
    assert rig.look().driver == wire.Driver("580.65.06", "")


# ---------------------------------------------------------------- one card that fails

# Calls that a card must answer, and calls for what it may lack: the field, and how its absence reads.
REQUIRED: Final = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
)
OPTIONAL: Final[dict[str, tuple[Callable[[probe.Card], Any], Any]]] = {
    "nvmlDeviceGetCudaComputeCapability": (lambda card: card.compute_capability, ""),
    "nvmlDeviceGetModuleId": (lambda card: card.module_id, None),
    "nvmlDeviceGetPciInfo_v3": (lambda card: card.location, wire.Topology()),
    "nvmlDeviceGetMigMode": (lambda card: card.mig, None),
    "nvmlDeviceGetMinorNumber": (lambda card: card.minor, 3),
    "nvmlDeviceGetNvLinkState": (
        lambda card: {link.kind for link in card.links} & {vocabulary.LinkKind.NVLINK},
        set(),
    ),
}


LOST: Final = {15: "GpuIsLost", 16: "ResetRequired", UNKNOWN: "UnknownError", NO_PERMISSION: "NoPermission"}


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        *((call, code, reason) for call in (*REQUIRED, *OPTIONAL) for code, reason in LOST.items()),
        *((call, NOT_SUPPORTED, "NotSupported") for call in REQUIRED),
    ],
)
def test_card_that_fails_a_call_is_one_lost_card(
    place: nodes.Place, call: str, code: int, reason: str
) -> None:
    """Whichever call fails on a card, that card is lost with NVML's reason, and the seven others stay."""
    rig = place(presets.DGX_A100)
    before = rig.look()
    rig.machine.fail(call, code, card=3)

    # What cannot change is asked for once in a session: that such a call fails is seen by the next one.
    rig.source.close()
    sample = rig.look()
    (lost,) = sample.lost_cards()
    assert (lost.index, lost.reason) == (3, reason)
    assert lost.message.startswith("nvmlDeviceGet")
    assert [card.uuid for card in sample.answering_cards()] == [
        card.uuid for card in before.answering_cards() if card.index != 3
    ]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND])
@pytest.mark.parametrize("call", OPTIONAL)
def test_what_a_card_does_not_have_is_absent(place: nodes.Place, call: str, code: int) -> None:
    """A card that lacks something, or a driver too old to tell, costs that field and nothing else."""
    rig = place(presets.DGX_A100, {f"card.3.error.{call}": code})
    read, absent = OPTIONAL[call]

    sample = nodes.look(rig.start())
    cards = tuple(sample.answering_cards())
    assert (len(cards), read(cards[3])) == (8, absent)
    assert not list(sample.lost_cards())
    assert cards[2].module_id == 3


def test_card_that_was_reset_is_back_at_the_next_look(place: nodes.Place) -> None:
    """After a reset a card answers only to those who open the library anew, which the probe does."""
    rig = place(presets.DGX_A100)
    before = rig.look()
    rig.machine.reset(5)

    assert ([lost.index for lost in rig.look().lost_cards()], rig.look()) == ([5], before)


def test_lost_card_does_not_open_the_library_at_every_look(
    place: nodes.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open the library may take seconds; for a card that stays lost it is done now and then only."""
    rig = place(presets.DGX_A100)
    opened = counted(monkeypatch, "nvmlInit")
    rig.look()
    rig.machine.lose(0)

    for _ in range(2 * nvml_probe.SAMPLES_BETWEEN_OPENINGS + 1):
        rig.look()
    assert opened["nvmlInit"] == 3


def counted(monkeypatch: pytest.MonkeyPatch, *names: str) -> collections.Counter[str]:
    """Count how often functions of the bindings are called from now on."""
    counts: collections.Counter[str] = collections.Counter()
    for name in names:
        monkeypatch.setattr(pynvml, name, _counting(getattr(pynvml, name), counts))
    return counts


def _counting(function: Callable[..., Any], counts: collections.Counter[str]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        counts[function.__name__] += 1
        return function(*arguments)

    call.__name__ = function.__name__
    return call


def test_what_cannot_change_is_asked_once(place: nodes.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, capabilities and topology are asked for once for each card; memory at every look."""
    static = (
        "nvmlDeviceGetName",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetTopologyCommonAncestor",
        "nvmlDeviceGetNvLinkRemotePciInfo",
    )
    counts = counted(monkeypatch, *static, "nvmlDeviceGetMinorNumber")
    looking = place(presets.DGX_1V).start()
    nodes.look(looking)
    at_first = dict(counts)

    nodes.look(looking)
    assert {name: counts[name] for name in static} == {name: at_first[name] for name in static}
    assert counts["nvmlDeviceGetMinorNumber"] == 2 * at_first["nvmlDeviceGetMinorNumber"] == 16


# ---------------------------------------------------------------- answers that make no sense


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        pytest.param({"card.1.minor": 4294967295}, 0, id="no minor"),
        pytest.param({"card.1.minor": -1}, 0, id="a minor below zero"),
        pytest.param({"card.1.capability": "-1 0"}, 0, id="a capability below zero"),
        pytest.param({"card.1.capability": "100000000 100000000"}, 0, id="a huge capability"),
        pytest.param({"card.1.memory": "18446744073709551615 0 0"}, 1, id="all the memory that there can be"),
        pytest.param({"card.1.memory": "0 0 0"}, 1, id="no memory"),
        pytest.param({"card.1.module": 2**32 - 1}, 0, id="no such module"),
        pytest.param({"card.1.name": "NVIDIA \udcff"}, 1, id="a name that is no text"),
        pytest.param({"card.1.uuid": "GPU with spaces"}, 1, id="a uuid that is none"),
        pytest.param({"card.1.name": "X" * 90}, 0, id="a long name"),
        pytest.param({"card.1.name": "X\x1b[2J\x07\u202e"}, 0, id="a name that steers a terminal"),
        pytest.param({"driver.version": "9\x1b[2J\u200b"}, 0, id="a version that steers a terminal"),
        pytest.param({"driver.version": "9" * 79}, 0, id="a long version"),
        pytest.param({"driver.version": "5\udcff"}, 0, id="a version that is no text"),
        pytest.param({"driver.cuda": -12}, 0, id="a CUDA version below zero"),
        pytest.param({"card.1.bus": "00000000:12345:00.0"}, 0, id="a bus that there cannot be"),
        pytest.param({"card.1.nvlink.0": "1 0 00000000:12345:00.0"}, 0, id="a link to nowhere"),
        pytest.param({"card.1.threshold.1": 0}, 0, id="a threshold of zero"),
        pytest.param({"card.1.temperature": 4294967295}, 0, id="a temperature of nowhere"),
    ],
)
def test_nonsense_costs_at_most_one_card(place: nodes.Place, changes: dict[str, object], lost: int) -> None:
    """What the server would refuse never reaches it: the field is absent, or that one card is lost."""
    rig = place(presets.DGX_A100, changes)
    spec = rig.spec()

    assert (len(spec.devices), nodes.status(rig.look(), spec).devices) == (8 - lost, ())
    assert spec.driver is not None
    assert all(text.isprintable() for text in (spec.driver.version, *(card.model for card in spec.devices)))


INSTANCE: Final = presets.instance("mig", 0, 9, 2, size=1)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param(INSTANCE.replace("MIG-", "MIG "), 3, id="a uuid that is none"),
        pytest.param(f"MIG-{'x' * 70} {INSTANCE.partition(' ')[2]}", 3, id="a uuid that is too long"),
        pytest.param(INSTANCE.replace(" 9728 1 1 19 ", " 9728 0 0 77 "), 3, id="no slices"),
        pytest.param(presets.instance("mig", 2, 1, 4, size=4), 3, id="one that is there already"),
        pytest.param(INSTANCE.replace(" 9 0 ", " 900 0 "), 3, id="a number that is too large"),
        pytest.param(INSTANCE, 4, id="nothing wrong"),
    ],
)
def test_nonsense_costs_at_most_one_instance(place: nodes.Place, line: str, left: int) -> None:
    """An instance that the server would refuse is not listed; the card and its other instances are."""
    rig = place(presets.MIG)
    assert rig.machine.read()["card.0.mig.3"] == INSTANCE
    rig.machine.change({"card.0.mig.3": line})
    spec = nodes.spec(rig.start())

    assert spec.devices[0].mig is not None
    assert len(spec.devices[0].mig.instances) == left


def test_numa_node_that_there_cannot_be_is_unknown(place: nodes.Place) -> None:
    """What the kernel says of it reaches nobody."""
    rig = place(presets.A10)
    for told in rig.machine.sys.glob("devices/*/*/*/numa_node"):
        told.write_text("99999\n")
    spec = nodes.spec(rig.start())

    assert {card.topology.numa_node for card in spec.devices if card.topology} == {None}


# ---------------------------------------------------------------- calls that hang


async def test_call_that_hangs_on_one_card_holds_up_one_look(place: nodes.Place) -> None:
    """The look that hangs counts as hung, no second one starts over it, and the next after it is whole."""
    rig = place(presets.DGX_A100)
    before = rig.look()
    rig.machine.hang("nvmlDeviceGetMemoryInfo", card=6)
    with contextlib.closing(sampler.Sampler(rig.source, deadline=0.1)) as asking:
        for _ in range(3):
            outcome = (await asking.sample()).outcome
            assert isinstance(outcome, probe.SourceFailed) and outcome.reason == "Hung"
            assert f"it is reading card 6 ({before.cards[6].uuid})" in outcome.message
        rig.machine.release("nvmlDeviceGetMemoryInfo", card=6)

        async def is_whole_again() -> bool:
            return (await asking.sample()).outcome == before

        await waiting.eventually(is_whole_again, what="a look that does not hang")
