"""Sources of packages: whatever they do, the cards are sampled, and no pod gets a device in doubt."""

import asyncio
import dataclasses
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from berth_agent import extra_devices, package_report, package_sources, probe, simulated, sysfs
from berth_agent.delivery.containers import Undeliverable
from berth_agent.found_devices import extra_device
from berth_agent.sampler import Sampler
from berth_crds import device_types, vocabulary, wire
from berth_crds.device_sources import (
    DeviceSource,
    FoundDevice,
    GivenDevice,
    Opening,
    SourceNode,
    VirtualFunction,
)
from support import device_package
from testbed import waiting

PATIENCE: Final = 10.0  # For sources that answer, however busy the machine is.
IMPATIENCE: Final = 1.0  # For those that hang.
ONE: Final = FoundDevice(id="a", minor=0)
TWO: Final = FoundDevice(id="b", minor=1)


class Source:
    """A source that does what a test says; it hangs while its gate is shut."""

    def __init__(self) -> None:
        self.discovering: Callable[[], Any] = lambda: [ONE, TWO]
        self.delivering: Callable[[Sequence[GivenDevice]], Any] = lambda _: Opening()
        self.gate = threading.Event()
        self.gate.set()

    def discover(self) -> Iterable[FoundDevice]:
        """Return what the test says."""
        self.gate.wait()
        found: Iterable[FoundDevice] = self.discovering()
        return found

    def deliver(self, devices: Sequence[GivenDevice]) -> Opening:
        """Return what the test says."""
        self.gate.wait()
        opening: Opening = self.delivering(devices)
        return opening


class Node:
    """A node with one source, and what is read of it."""

    def __init__(self, source: Source, *, patience: float = PATIENCE) -> None:
        self.source = source
        described = device_types.TypeDescription(
            name="npu", resource="example.com/npu", plural="NPUs", source=self.make
        )
        self.described = described
        self.sources = package_sources.PackageSources(
            [
                package_sources.PackageSource(
                    described, SourceNode("n1"), sysfs.Kernel(Path("/none")), patience=patience
                )
            ],
            patience=patience,
        )
        self.opener = self.sources.openers["npu"]

    def make(self, node: SourceNode) -> DeviceSource:
        """Make the source."""
        assert node == SourceNode("n1")
        return self.source

    def read(self) -> dict[str, str]:
        """Return which devices are listed, and why a pod may not have each."""
        return {each.entry.uuid: _trouble(each) for each in self.sources.read()}

    def condition(self) -> tuple[str, str]:
        """Return the status and the message of the condition."""
        found = package_report.PackageReport(self.sources).condition()
        assert (found.reason == "DevicesRead") == (found.status == "True")
        return found.status, found.message


def _trouble(device: probe.ExtraDevice) -> str:
    found = device.health or device.problem
    return "" if found is None or found.state == vocabulary.Health.HEALTHY else found.reason


@pytest.fixture
def node() -> Iterator[Node]:
    """Lend a node whose source finds two devices."""
    yield from _lent(Node(Source()))


@pytest.fixture
def impatient_node() -> Iterator[Node]:
    """Lend one that soon gives up a source that hangs."""
    yield from _lent(Node(Source(), patience=IMPATIENCE))


def _lent(found: Node) -> Iterator[Node]:
    with device_package.added(found.described):
        yield found
        found.source.gate.set()  # Its threads end.


# ---------------------------------------------------------------- what is found


def test_what_a_source_finds_is_listed(node: Node) -> None:
    """Under uuids that begin with the type; a device that its source calls sick is listed and not given."""
    sick = dataclasses.replace(TWO, reason="Overheated", message="95 degrees", labels={"a\nb": "\x1b[1m"})
    function = VirtualFunction(3, "0000:3b:00.3")
    node.source.discovering = lambda: iter(
        [dataclasses.replace(ONE, labels={"fabric": "a"}, memory=1 << 30, functions=(function,)), sick]
    )

    first, second = node.sources.read()

    assert (first.entry.uuid, first.entry.type, first.entry.labels) == ("npu-a", "npu", {"fabric": "a"})
    assert second.entry.labels == {"a b": "\\x1b[1m"}
    assert [(one.minor, one.bus_id) for one in first.entry.vf_groups[0].vfs] == [(3, "0000:3b:00.3")]
    assert (_trouble(first), _trouble(second)) == ("", "Overheated")
    assert node.condition() == ("True", "2 NPUs.")


def test_functions_are_grouped_by_the_labels_that_a_source_gives(node: Node) -> None:
    """Pods choose among them by these."""
    functions = [VirtualFunction(at, f"0000:3b:00.{at + 1}", {"use": "ab"[at % 2]}) for at in range(3)]
    node.source.discovering = lambda: iter([dataclasses.replace(ONE, functions=tuple(functions))])

    (found,) = node.sources.read()

    assert found.entry.vf_groups == (
        wire.VfGroup({"use": "a"}, (wire.Vf(0, "0000:3b:00.1"), wire.Vf(2, "0000:3b:00.3"))),
        wire.VfGroup({"use": "b"}, (wire.Vf(1, "0000:3b:00.2"),)),
    )


def wrong(device: FoundDevice, **fields: Any) -> FoundDevice:
    """Return a device with fields that its type does not allow."""
    return dataclasses.replace(device, **fields)


def wrong_labels(labels: Any) -> dict[str, str]:
    """Return labels that their type does not allow."""
    found: dict[str, str] = labels
    return found


GARBAGE: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, "TypeError: 'NoneType' object is not iterable"),
    "texts": (lambda: "ab", "device 1 is no FoundDevice but 'str'"),
    "a minor as a text": (lambda: [wrong(ONE, minor="0")], "device 1 cannot be used: Expected"),
    "a minor below zero": (lambda: [wrong(ONE, minor=-1)], "device 1 cannot be used: Expected"),
    "an id with a comma": (lambda: [TWO, wrong(ONE, id="a,b")], "device 2 cannot be used"),
    "an id that is none": (lambda: [wrong(ONE, id="x" * 99)], "device 1 cannot be used"),
    "labels of lists": (lambda: [wrong(ONE, labels={"a": ["b"]})], "device 1 cannot be used"),
    "no labels": (lambda: [wrong(ONE, labels=7)], "device 1 cannot be used"),
    "a function nowhere": (
        lambda: [wrong(ONE, functions=(VirtualFunction(0, "here"),))],
        "device 1 cannot be used: 'here' is no PCI address of a virtual function",
    ),
    "functions with a label that is none": (
        lambda: [wrong(ONE, functions=(VirtualFunction(0, "0000:3b:00.3", {"a b": "c"}),))],
        "device 1 cannot be used: the virtual function 0000:3b:00.3: 'a b' is no key of a label",
    ),
    "functions with labels of numbers": (
        lambda: [wrong(ONE, functions=(VirtualFunction(0, "0000:3b:00.3", wrong_labels({"a": 1})),))],
        "device 1 cannot be used: Expected `str`",
    ),
    "functions with 17 sets of labels": (
        lambda: [
            wrong(
                ONE,
                functions=tuple(
                    VirtualFunction(at, f"0000:3b:{at:02x}.3", {"a": f"b{at}"}) for at in range(17)
                ),
            )
        ],
        "device 1 cannot be used: its virtual functions have more than 16 different sets of labels",
    ),
    "functions that are none": (lambda: [wrong(ONE, functions=("a",))], "device 1 cannot"),
    "one id twice": (
        lambda: [ONE, wrong(TWO, id="a")],
        "device 2 has the id or the minor of another: a, 1",
    ),
    "one minor twice": (lambda: [ONE, wrong(TWO, minor=0)], "device 2 has the id or the minor"),
    "10,000 devices": (
        lambda: [FoundDevice(id=f"d{at}", minor=at) for at in range(10_000)],
        "it lists more than 64 devices",
    ),
    "devices without end": (
        lambda: (FoundDevice(id=f"d{at}", minor=at) for at in itertools.count()),
        "it lists more than 64 devices",
    ),
    "an error": (lambda: [1 / 0], "ZeroDivisionError: division by zero"),
    "an error of the system": (lambda: [Path("/none/x").read_text()], "FileNotFoundError: No such file"),
    "the end of the program": (lambda: sys.exit(3), "it raised SystemExit"),
    "the end of an iteration": (lambda: next(iter(())), "it raised StopIteration"),
}


@pytest.mark.parametrize(("garbage", "why"), GARBAGE.values(), ids=GARBAGE)
def test_a_source_that_returns_garbage_fails_alone(node: Node, garbage: Callable[[], Any], why: str) -> None:
    """Its devices stand as they were read last and no pod gets one; the Device says why, until it is well."""
    assert node.read() == {"npu-a": "", "npu-b": ""}
    well, node.source.discovering = node.source.discovering, garbage

    assert node.read() == {"npu-a": "SourceFailed", "npu-b": "SourceFailed"}
    status, message = node.condition()
    assert status == "False" and message.startswith("npu: ") and why in message

    node.source.discovering = well
    assert node.read() == {"npu-a": "", "npu-b": ""}
    assert node.condition()[0] == "True"


def test_a_source_that_cannot_be_made_is_tried_again() -> None:
    """Its library may be installed later."""
    source, attempts = Source(), iter([True, False])

    def make(_: SourceNode) -> DeviceSource:
        if next(attempts):
            raise OSError("no library")
        return source

    node = Node(source)
    described = dataclasses.replace(node.described, source=make)
    one = package_sources.PackageSource(
        described, SourceNode("n1"), sysfs.Kernel(Path("/none")), patience=PATIENCE
    )
    found = package_sources.PackageSources([one], patience=PATIENCE)

    assert (found.read(), found.failure()) == ((), "npu: OSError: no library.")
    assert len(found.read()) == 2
    assert found.failure() == ""


async def test_a_source_that_hangs_delays_one_sample_and_fails_none(impatient_node: Node) -> None:
    """The cards are sampled; who hangs is not waited for again, and is well once it answers."""
    extra = extra_devices.ExtraDevices([impatient_node.sources.read])
    sampler = Sampler(simulated.SimulatedProbe("n1", "2xT4", None, extra.complete), deadline=20 * IMPATIENCE)
    clock = asyncio.get_running_loop().time

    async def sampled() -> list[str]:
        found = (await sampler.sample()).outcome
        assert isinstance(found, probe.Sample) and len(found.cards) == 2
        return [_trouble(one) for one in found.devices]

    assert await sampled() == ["", ""]
    impatient_node.source.gate.clear()
    assert await sampled() == ["SourceFailed", "SourceFailed"]
    assert impatient_node.condition() == ("False", f"npu: it has not answered within {IMPATIENCE:g} s.")
    before = clock()
    assert await sampled() == ["SourceFailed", "SourceFailed"]
    assert clock() - before < IMPATIENCE / 2
    assert sum(one.name == "devices npu" for one in threading.enumerate()) == 1

    impatient_node.source.gate.set()

    async def well() -> bool:
        return await sampled() == ["", ""]

    await waiting.eventually(well, what="the source to be well")
    assert impatient_node.condition()[0] == "True"
    sampler.close()


def test_a_source_that_is_always_late_is_published_one_sample_late(impatient_node: Node) -> None:
    """It hangs no more than a slow driver does."""
    assert len(impatient_node.read()) == 2
    for _ in range(3):
        impatient_node.source.gate.clear()
        late = threading.Timer(1.5 * IMPATIENCE, impatient_node.source.gate.set)
        late.start()
        impatient_node.read()
        late.join()
        threads = [one for one in threading.enumerate() if one.name == "devices npu"]
        for one in threads:
            one.join(timeout=5)

    impatient_node.source.gate.clear()
    assert impatient_node.read() == {"npu-a": "", "npu-b": ""}
    assert impatient_node.condition()[0] == "True"


def test_packages_that_could_not_be_loaded_are_named_in_the_device() -> None:
    """With the sentence that the log has."""
    sources = package_sources.PackageSources(
        [], patience=PATIENCE, not_loaded=["The type npu is not used: x."]
    )

    found = package_report.PackageReport(sources).condition()

    assert (found.status, found.message) == ("False", "The type npu is not used: x.")
    assert sources and not package_sources.PackageSources([], patience=PATIENCE)


# ---------------------------------------------------------------- what is delivered

GIVEN: Final = (GivenDevice(id="a", minor=0),)


def _exit(_: object) -> Opening:
    sys.exit(1)


def _raise(_: object) -> Opening:
    raise ValueError("no such device")


def _time_out(_: object) -> Opening:
    raise TimeoutError("of its own")


@pytest.mark.parametrize(
    ("delivering", "why"),
    [
        pytest.param(_raise, "the source of npu failed: ValueError: no such device", id="an error"),
        pytest.param(
            _time_out, "the source of npu failed: TimeoutError: of its own", id="a time-out of its own"
        ),
        pytest.param(_exit, "the source of npu failed: Unusable: it raised SystemExit", id="the end"),
    ],
)
async def test_what_cannot_be_opened_is_not_delivered(
    node: Node, delivering: Callable[[object], Opening], why: str
) -> None:
    """The container is not made without its device."""
    node.source.delivering = delivering

    with pytest.raises(Undeliverable) as failure:
        await node.opener.open(GIVEN)
    assert str(failure.value) == why


async def test_a_delivery_that_hangs_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime would make the container without its device; and few calls hang at a time."""
    monkeypatch.setattr(package_sources, "DELIVER_SECONDS", 0.05)
    node.source.gate.clear()

    for _ in range(package_sources.MOST_DELIVERING):
        with pytest.raises(Undeliverable, match=r"has not answered within 0\.05 s"):
            await node.opener.open(GIVEN)
    with pytest.raises(Undeliverable, match="has not answered for other containers yet"):
        await node.opener.open(GIVEN)

    node.source.gate.set()
    await waiting.eventually(
        lambda: all(one.name != "delivery npu" for one in threading.enumerate()), what="the calls to end"
    )
    assert await node.opener.open(GIVEN) == Opening()


def test_devices_with_more_than_the_server_takes_are_left_out() -> None:
    """It would refuse the cards along with them: all labels together count, and all functions."""
    labels = {f"{at}": "x" * 250 for at in range(16)}
    functions = tuple(VirtualFunction(at, f"0000:{at:02x}:00.0") for at in range(256))
    found = [FoundDevice(id=f"{at}", minor=at, labels=labels) for at in range(40)]
    found += [FoundDevice(id=f"{at}", minor=at, functions=functions) for at in range(40, 60)]
    listed = [extra_device("npu", one, sysfs.Kernel(Path("/none")), origin="x") for one in found]

    fitting, left_out = extra_devices.without_conflicts(simulated.machine("n1", "2xT4"), listed)

    assert (len(fitting), len(left_out)) == (32 + 16, 8 + 4)
    assert left_out[0] == (
        "the device npu-32 of x is left out: all devices together would have more than 131072 characters in"
        " labels"
    )
    assert "more than 4096 virtual functions" in left_out[-1]
