"""What the probe for real cards makes of a driver and of cards that fail.

Each test is a trap in which an agent of some other project has sat, or a promise of the
contract: a source that fails is told and asked again, one card that fails never takes the
others with it, and nothing that is served is older than the look that serves it.
"""

import collections
import contextlib
import datetime as dt
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pynvml
import pytest

from berth_agent import device_spec, probe, sampler
from berth_agent.nvml import calls, nvml_probe
from berth_crds import device, vocabulary, wire
from support import nodes
from support.nvml import build, fixtures, machine, presets
from testbed import waiting

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN = 3, 4, 999
GPU_IS_LOST, RESET_REQUIRED, FUNCTION_NOT_FOUND = 15, 16, 13


# ---------------------------------------------------------------- the source as a whole


def test_missing_library_is_a_sentence(tmp_path: Path) -> None:
    """On a node without a driver the probe says so and lives; nothing is raised, no list is empty."""
    script = (
        "from berth_agent import sysfs; from berth_agent.nvml import nvml_probe;"
        "probe = nvml_probe.NvmlProbe(sysfs.Kernel()); print(probe.sample()); print(probe.sample())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    told = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    if told[0].startswith("Sample"):
        pytest.skip("this machine has a driver")
    assert len(told) == 2
    assert all("LibraryMissing" in line and "libnvidia-ml.so.1 is missing" in line for line in told)


def test_library_that_appears_is_found(tmp_path: Path) -> None:
    """A driver installed after the agent was started is found without starting it anew."""
    fixtures.require()
    made = machine.Machine.make(tmp_path / "node", presets.A10)
    script = (
        "import ctypes, sys; from berth_agent import sysfs; from berth_agent.nvml import nvml_probe;"
        "probe = nvml_probe.NvmlProbe(sysfs.Kernel()); first = probe.sample();"
        "ctypes.CDLL(sys.argv[1]); print(type(first).__name__, len(probe.sample().cards))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(build.library())],
        env={**os.environ, machine.VARIABLE: str(made.state)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    if told[0] == "Sample":
        pytest.skip("this machine has a driver")
    assert told == ["SourceFailed", "8"]


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


@pytest.mark.parametrize("code", [GPU_IS_LOST, RESET_REQUIRED, UNKNOWN, NO_PERMISSION])
@pytest.mark.parametrize("call", [*REQUIRED, *OPTIONAL])
def test_card_that_fails_a_call_is_one_lost_card(place: nodes.Place, call: str, code: int) -> None:
    """Whichever call fails on a card, that card is lost with NVML's reason, and the seven others stay."""
    rig = place(presets.DGX_A100)
    before = rig.look()
    rig.machine.fail(call, code, card=3)

    # What cannot change is asked for once in a session: that such a call fails is seen by the next one.
    rig.source.close()
    sample = rig.source.sample()
    assert isinstance(sample, probe.Sample)
    (lost,) = sample.lost_cards()
    assert lost.index == 3
    assert lost.reason == {15: "GpuIsLost", 16: "ResetRequired", 999: "UnknownError", 4: "NoPermission"}[code]
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


@pytest.mark.parametrize("call", REQUIRED)
def test_card_without_the_needful_is_lost(place: nodes.Place, call: str) -> None:
    """A card that has no uuid, name or memory to tell cannot be given out; it is lost, not left out."""
    rig = place(presets.A10, {f"card.2.error.{call}": NOT_SUPPORTED})

    sample = nodes.look(rig.start())
    assert [(lost.index, lost.reason) for lost in sample.lost_cards()] == [(2, "NotSupported")]
    assert len(list(sample.answering_cards())) == 7


def test_name_that_is_no_text_costs_one_card(place: nodes.Place) -> None:
    """A name in no encoding is that card's trouble only."""
    rig = place(presets.A10, {"card.1.name": "NVIDIA \udcff"})

    sample = nodes.look(rig.start())
    assert [(lost.index, lost.message) for lost in sample.lost_cards()] == [
        (1, "nvmlDeviceGetName failed: the answer is no text")
    ]


@pytest.mark.parametrize(
    ("key", "value", "listed"),
    [
        pytest.param("memory", "0 0 0", False, id="no memory"),
        pytest.param("module", 2**32 - 1, True, id="no such module"),
    ],
)
def test_odd_value_does_not_cost_the_list(
    place: nodes.Place, key: str, value: object, *, listed: bool
) -> None:
    """What the schema would refuse never reaches it: for one odd value it would refuse all cards."""
    rig = place(presets.A10, {f"card.1.{key}": value})

    sample = nodes.look(rig.start())
    said = msgspec.json.encode(device_spec.spec(nodes.NODE, sample, None))
    assert len(device.DeviceSpec.model_validate_json(said).devices) == (8 if listed else 7)
    assert ({card.model for card in sample.answering_cards()}, len(sample.cards)) == ({"NVIDIA A10"}, 8)


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
