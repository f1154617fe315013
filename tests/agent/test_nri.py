"""The plugin of the container runtime against a played one, which does what a real one seldom does."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from berth_agent.delivery.containers import Delivery, DeviceNode, Edits, Mount, Undeliverable
from berth_agent.kubelet import podresources
from berth_agent.nri import adjuster, messages, plugin
from berth_crds import allocation, names, tasks, wire
from support.podresources import field
from testbed import waiting

Script = Callable[["Runtime"], Awaitable[None]]
NOBODYS = struct.pack(">II", 7, 1) + b"x"
ENDLESS = struct.pack(">II", 1, 10) + b"\xff" * 10
CARD = wire.Card("GPU-a", "gpu", 0)
ENV = {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}


class Runtime:
    """A runtime at the other end of one connection; frames are written here by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def receive(self) -> tuple[int, int, int, bytes]:
        """Return connection, call, kind and payload of the next message."""
        connection, size = struct.unpack(">II", await self.reader.readexactly(8))
        content = await self.reader.readexactly(size)
        length, call, kind, _ = struct.unpack(">IIBB", content[:10])
        assert length == size - 10
        return connection, call, kind, content[10:]

    def send(self, connection: int, call: int, kind: int, payload: bytes, *, pieces: int = 1) -> None:
        """Send a message, perhaps in several frames."""
        content = struct.pack(">IIBB", len(payload), call, kind, 0) + payload
        step = -(-len(content) // pieces)
        for start in range(0, len(content), step):
            piece = content[start : start + step]
            self.writer.write(struct.pack(">II", connection, len(piece)) + piece)

    async def take_registration(self) -> None:
        """Answer the plugin's registration."""
        connection, call, kind, payload = await self.receive()
        asked = field(1, "nri.pkg.api.v1alpha1.Runtime") + field(2, "RegisterPlugin")
        assert (connection, kind, payload) == (2, 1, asked + field(3, field(1, "berth") + field(2, "50")))
        self.send(2, call, 2, b"")

    async def ask(self, method: str, payload: bytes, *, call: int = 1, pieces: int = 1) -> bytes:
        """Ask the plugin, and return its response."""
        request = field(1, "nri.pkg.api.v1alpha1.Plugin") + field(2, method) + field(3, payload)
        self.send(1, call, 1, request, pieces=pieces)
        connection, answered, kind, response = await self.receive()
        assert (connection, answered, kind) == (1, call, 2)
        return response

    async def welcome(self) -> None:
        """Go through all that comes before the first container."""
        await self.take_registration()
        assert await self.ask("Configure", field(1, "")) == field(2, b"\x10\x08")
        await self.ask("Synchronize", b"")


def new_container(name: str = "main", *, env: Sequence[str] = (), **annotations: str) -> bytes:
    """Return a CreateContainerRequest of pod ml/p."""
    pairs = b"".join(field(6, field(1, key) + field(2, value)) for key, value in annotations.items())
    variables = b"".join(field(8, each) for each in env)
    pod = field(1, "id") + field(2, "p") + field(3, "uid") + field(4, "ml") + pairs
    return field(1, pod) + field(2, field(3, name) + variables)


class Played:
    """Runtimes at one socket, one for each connection, and the plugin that speaks to them."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[messages.NewContainer] = []
        self.answer: Delivery | Exception | None = None
        self.connections: asyncio.Queue[Runtime] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self.plugin: plugin.NriPlugin

    async def deliver(self, container: messages.NewContainer) -> Delivery | None:
        """Return or raise what the test has prepared."""
        self.asked.append(container)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await self.connections.put(Runtime(reader, writer))

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen meanwhile, and close all connections at the end."""
        server = await asyncio.start_unix_server(self._connected, self.socket)
        yield
        server.close()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def runtime(self) -> Runtime:
        """Return the runtime of the next connection."""
        async with asyncio.timeout(10):
            return await self.connections.get()


@pytest.fixture
async def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Played]:
    """Yield a socket with a plugin that connects to it again and again without long pauses."""
    monkeypatch.setattr(plugin, "MOST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(plugin, "REGISTRATION_SECONDS", 2.0)
    played = Played(tmp_path / "nri.sock")
    async with played.listening():
        played.plugin = plugin.NriPlugin(played.socket, "n1", played.deliver)
        running = asyncio.create_task(played.plugin.run())
        yield played
        await tasks.end([running])


def said(played: Played) -> tuple[str, str, str]:
    """Return what the condition of the plugin says."""
    found = played.plugin.condition()
    return found.status, found.reason, found.message


async def test_a_container_gets_what_is_delivered(played: Played) -> None:
    """Environment, device nodes, mounts and CDI devices, each where the runtime looks for it."""
    assert said(played) == ("False", "NotConnected", "It has not been connected to yet.")
    played.answer = Delivery(
        ENV,
        Edits(
            (DeviceNode("/dev/nvidia0", 195, 0, 0o666),),
            (Mount("/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),),
            ("nvidia.com/gpu=GPU-a",),
        ),
    )
    runtime = await played.runtime()
    await runtime.welcome()

    response = await runtime.ask("CreateContainer", new_container(env=["A=b"], key="value"), pieces=3)

    options = b"".join(field(4, option) for option in ("ro", "nosuid", "nodev", "rbind", "rprivate"))
    mount = (
        field(1, "/usr/local/nvidia/lib64/libcuda.so.1") + field(2, "bind") + field(3, "/lib/libcuda.so.1")
    )
    device = field(1, "/dev/nvidia0") + field(2, "c") + b"\x18\xc3\x01" + field(5, b"\x08\xb6\x03")
    adjustment = (
        field(3, mount + options)
        + field(4, field(1, "NVIDIA_VISIBLE_DEVICES") + field(2, "GPU-a"))
        + field(6, field(1, device))
        + field(8, field(1, "nvidia.com/gpu=GPU-a"))
    )
    assert response == field(2, field(1, adjustment))
    assert said(played)[:2] == ("True", "Connected")
    assert played.asked == [messages.NewContainer("ml", "p", "main", {"key": "value"}, ("A=b",), "uid")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(Undeliverable("there is no card"), "Berth: there is no card", id="undeliverable"),
        pytest.param(KeyError("a bug"), "KeyError: 'a bug'", id="a bug of ours"),
    ],
)
async def test_what_cannot_be_delivered_is_refused(played: Played, answer: Exception, said: str) -> None:
    """The connection stays: were it lost, the runtime would make the container as it is."""
    runtime = await played.runtime()
    await runtime.welcome()
    played.answer = answer

    refused = await runtime.ask("CreateContainer", new_container())
    played.answer = None
    passed = await runtime.ask("CreateContainer", new_container("other"), call=3)

    assert refused == field(1, b"\x08\x09" + field(2, said))
    assert passed == b"\x12\x00"


async def test_a_request_that_cannot_be_read_is_refused(played: Played) -> None:
    """The container of which we know nothing does not start."""
    runtime = await played.runtime()
    await runtime.welcome()

    for call, payload in enumerate((b"\x0a\xff", field(1, field(6, b"\x0a\x01\xff")), b"\x08\x01")):
        response = await runtime.ask("CreateContainer", payload, call=2 * call + 1)
        assert response.startswith(b"\x0a")
        assert b"\x08\x09" in response
    assert played.asked == []


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(lambda runtime: runtime.writer.close(), id="it goes away"),
        pytest.param(lambda runtime: runtime.writer.write(NOBODYS), id="a frame for nobody"),
        pytest.param(lambda runtime: runtime.writer.write(b"\xff" * 64), id="a frame without an end"),
        pytest.param(lambda runtime: runtime.writer.write(ENDLESS), id="a message without an end"),
        pytest.param(lambda _: None, id="it never takes the registration"),
        pytest.param(
            lambda runtime: runtime.send(2, 1, 2, field(1, b"\x08\x09" + field(2, "not you"))),
            id="it refuses the registration",
        ),
    ],
)
async def test_a_runtime_that_fails_is_connected_to_again(
    played: Played, script: Callable[[Runtime], None], caplog: pytest.LogCaptureFixture
) -> None:
    """And what is wrong is said once."""
    script(await played.runtime())
    await waiting.eventually(lambda: str(played.socket) in said(played)[2], what="the condition to say why")
    assert said(played)[:2] == ("False", "NotConnected")

    await (await played.runtime()).welcome()

    await waiting.eventually(lambda: said(played)[0] == "True", what="the condition to say so")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert f"not connected to NRI, so containers get no cards (attempt 1): {played.socket}: " in warned[0]


# ---------------------------------------------------------------- who gets what


class Kubelet:
    """Lists what a test says, or fails."""

    def __init__(
        self, *pods: podresources.ListedPod, failure: Exception | None = None, slow: bool = False
    ) -> None:
        self._pods = pods
        self._failure = failure
        self._slow = slow

    async def pods(self) -> tuple[podresources.ListedPod, ...]:
        """Return the pods."""
        if self._slow:
            await asyncio.sleep(3600)
        if self._failure:
            raise self._failure
        return self._pods

    async def close(self) -> None:
        """There is nothing to close."""


class Means:
    """Opens nothing."""

    def edits(self, given: object) -> Edits:  # noqa: ARG002  It is what the protocol hands over.
        """Return no edits."""
        return Edits()


def deciding(kubelet: Kubelet | None, cards: Sequence[wire.Card] | None = (CARD,)) -> adjuster.Adjuster:
    """Return the decisions of a node whose kubelet guards."""
    rules = adjuster.Guard(kubelet, ("nvidia.com/gpu",), frozenset({"gpu-operator"})) if kubelet else None
    requested = {"init": ["cpu", "nvidia.com/gpu"], "of an unknown pod": None}
    return adjuster.Adjuster(
        "n1",
        lambda: cards,
        lambda container: requested.get(container.name, ()),
        adjuster.NriConfig(Path("nri.sock"), Means(), rules),
    )


def listed(*resources: str) -> podresources.ListedPod:
    """Return pod ml/p, of which container main was given these resources."""
    devices = tuple(podresources.ListedDevices(name, ("GPU-a",)) for name in resources)
    return podresources.ListedPod("ml", "p", (podresources.ListedContainer("main", devices),))


def asking(container: str = "main", namespace: str = "ml", **annotations: str) -> messages.NewContainer:
    """Return a container whose image says that it sees all cards."""
    return messages.NewContainer(namespace, "p", container, annotations, ("NVIDIA_VISIBLE_DEVICES=all",))


NAMING = asking()._replace(environment=("NVIDIA_VISIBLE_DEVICES=GPU-a",))
BY_INDEX = asking()._replace(environment=("NVIDIA_VISIBLE_DEVICES=0",))


async def test_who_asks_for_more_than_it_was_given_gets_that_alone() -> None:
    """What a pod says itself would win over what the kubelet's plugin says."""
    found = await deciding(Kubelet(listed("nvidia.com/gpu"))).delivery(asking())

    assert found == Delivery({"NVIDIA_VISIBLE_DEVICES": "GPU-a"})


@pytest.mark.parametrize(
    ("kubelet", "container", "taken"),
    [
        pytest.param(None, asking(), False, id="no guard"),
        pytest.param(Kubelet(listed()), asking(), True, id="given nothing"),
        pytest.param(Kubelet(), asking(), True, id="not listed"),
        pytest.param(Kubelet(), BY_INDEX, True, id="not listed, and asks by index"),
        pytest.param(Kubelet(), BY_INDEX._replace(name="init"), False, id="an init container with a card"),
        pytest.param(Kubelet(), asking("init"), True, id="an init container that asks for all"),
        pytest.param(Kubelet(listed()), NAMING._replace(name="other"), True, id="an init container without"),
        pytest.param(Kubelet(), NAMING._replace(name="of an unknown pod"), False, id="of an unknown pod"),
        pytest.param(Kubelet(listed("nvidia.com/gpu")), NAMING, False, id="given a card by a plugin"),
        pytest.param(
            Kubelet(listed(), listed("nvidia.com/gpu")),
            NAMING,
            False,
            id="listed beside an ended pod",
        ),
        pytest.param(Kubelet(listed("example.com/nic")), NAMING, True, id="given another device"),
        pytest.param(Kubelet(listed("nvidia.com/gpu")), asking("other"), True, id="another was given it"),
        pytest.param(Kubelet(listed()), asking(namespace="gpu-operator"), False, id="unguarded"),
        pytest.param(Kubelet(listed()), asking()._replace(environment=()), False, id="it asks for nothing"),
    ],
)
async def test_the_guard_takes_cards_that_nobody_gave(
    kubelet: Kubelet | None, container: messages.NewContainer, *, taken: bool
) -> None:
    """From containers of pods that Berth did not bind."""
    found = await deciding(kubelet).delivery(container)

    assert found == (Delivery({"NVIDIA_VISIBLE_DEVICES": "void"}) if taken else None)


SEES = "NVIDIA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("environment", "delivered", "name"),
    [
        pytest.param([f"{SEES}=all"], {SEES: "void"}, "", id="once"),
        pytest.param([f"{SEES}=all", f"{SEES}=all"], {SEES: "void"}, SEES, id="all, by image and pod"),
        pytest.param([f"{SEES}=all", f"{SEES}=GPU-b"], {SEES: "GPU-a"}, SEES, id="another card"),
        pytest.param([f"{SEES}=all", "A=b", f"{SEES}=GPU-a"], {SEES: "GPU-a,GPU-b"}, "", id="one of its own"),
        pytest.param([f"{SEES}=all", f"{SEES}="], {SEES: "void"}, "", id="nothing, from an annotation"),
        pytest.param([f"{SEES}=all", f"{SEES}=void"], {SEES: "GPU-a"}, "", id="less than it may"),
        pytest.param(["A=1", "A=2", "A=2"], {SEES: "void"}, "", id="what is not delivered"),
        pytest.param(["A=1", "A=9"], {"A": "2"}, "A", id="a limit"),
        pytest.param(["A=9", "A=2"], {"A": "2"}, "", id="the same limit"),
    ],
)
def test_a_variable_that_occurs_twice_is_noticed(
    environment: list[str], delivered: dict[str, str], name: str
) -> None:
    """Where the runtime would leave the container more than was delivered."""
    assert adjuster.overruled(environment, delivered) == name


async def test_a_container_that_would_keep_its_own_word_is_not_made() -> None:
    """Neither of others' pods nor of Berth's."""
    twice = asking()._replace(environment=(f"{SEES}=all", f"{SEES}=all"))
    record = allocation.encode(allocation.of("n1", {"main": {"gpu": [allocation.Share("GPU-a", 0, 100, 7)]}}))
    ours = twice._replace(annotations={names.TERM: "t", names.ALLOCATION: record})

    for container in (twice, ours):
        with pytest.raises(Undeliverable, match=f"{SEES} is set both in the image and in the pod"):
            await deciding(Kubelet(listed())).delivery(container)


async def test_a_guard_whose_kubelet_says_nothing_lets_nobody_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime tries again; who asks for no card is not kept."""
    monkeypatch.setattr(adjuster, "KUBELET_SECONDS", 0.01)
    failure = podresources.PodResourcesError(podresources.FailureReason.HUNG, "It hangs.")

    with pytest.raises(Undeliverable, match="does not say what it gave the container: It hangs"):
        await deciding(Kubelet(failure=failure)).delivery(asking())
    with pytest.raises(Undeliverable, match=r"no answer within 0\.01 s"):
        await deciding(Kubelet(slow=True)).delivery(asking())
    assert await deciding(Kubelet(slow=True)).delivery(asking()._replace(environment=())) is None


async def test_cards_that_were_not_read_yet_are_waited_for() -> None:
    """By pods of Berth's; others do not wait."""
    record = allocation.encode(allocation.of("n1", {"main": {"gpu": [allocation.Share("GPU-a", 0, 100, 7)]}}))
    ours = asking(**{names.TERM: "t", names.ALLOCATION: record})

    with pytest.raises(Undeliverable, match="have not been read yet"):
        await deciding(None, cards=None).delivery(ours)
    assert await deciding(None, cards=None).delivery(asking()) is None
    found = await deciding(None).delivery(ours)
    assert found and found.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"
