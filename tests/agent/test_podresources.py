"""What the kubelet says is read as it is, and whatever goes wrong with it is one error that says what."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from berth_agent.kubelet import messages, podresources
from berth_agent.kubelet.podresources import (
    ClaimedDevice,
    FailureReason,
    ListedClaim,
    ListedContainer,
    ListedDevices,
    ListedPod,
)
from berth_crds import text
from support.podresources import Claim, Kubelet, answer, field
from testbed import waiting

DEADLINE = 10.0
SOON = 1.0  # For a kubelet that never answers.


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[Kubelet]:
    """Lend a kubelet that serves both versions."""
    async with Kubelet(tmp_path / "kubelet.sock") as kubelet:
        yield kubelet


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[podresources.PodResourcesClient]:
    """Lend a client of it."""
    client = podresources.PodResourcesClient(tmp_path / "kubelet.sock", deadline=DEADLINE)
    yield client
    await client.close()


async def refusal(client: podresources.PodResourcesClient) -> podresources.PodResourcesError:
    """Ask, and give what it was refused with."""
    with pytest.raises(podresources.PodResourcesError) as caught:
        await client.pods()
    return caught.value


async def test_pods_are_listed(kubelet: Kubelet, client: podresources.PodResourcesClient) -> None:
    """Names, resources and ids arrive as they were sent; what else the kubelet says is skipped."""
    kubelet.says([("ml/train", {"main": {"nvidia.com/gpu": ["GPU-1", "GPU-2"]}, "log": {}}), ("ml/web", {})])

    listed = await client.pods()

    gpus = (ListedDevices("nvidia.com/gpu", ("GPU-1",)), ListedDevices("nvidia.com/gpu", ("GPU-2",)))
    assert listed == (
        ListedPod("ml", "train", (ListedContainer("main", gpus), ListedContainer("log"))),
        ListedPod("ml", "web"),
    )


async def test_claims_are_listed_with_their_devices(
    kubelet: Kubelet, client: podresources.PodResourcesClient
) -> None:
    """A container has the devices of its claims beside those of plugins, by their drivers' names."""
    kubelet.says(
        [("ml/train", {"main": {"nvidia.com/gpu": ["GPU-1"], Claim("ml/card"): ["gpu-0", "gpu-1"]}})]
    )

    ((pod,),) = (await client.pods(),)

    (main,) = pod.containers
    devices = tuple(ClaimedDevice("gpu.nvidia.com", name) for name in ("gpu-0", "gpu-1"))
    assert main.devices == (ListedDevices("nvidia.com/gpu", ("GPU-1",)),)
    assert main.claims == (ListedClaim("card", "ml", devices),)


async def test_newest_version_that_is_served_is_asked(
    tmp_path: Path, client: podresources.PodResourcesClient
) -> None:
    """A kubelet without v1 is asked in v1alpha1 alone; the next one is asked in v1 first."""
    async with Kubelet(tmp_path / "kubelet.sock", versions=("v1alpha1",)) as old:
        old.says([("ml/train", {})])
        listed = [await client.pods(), await client.pods()]
    await refusal(client)
    async with Kubelet(tmp_path / "kubelet.sock") as new:
        listed.append(await client.pods())

    assert listed == [(ListedPod("ml", "train"),)] * 2 + [()]
    assert (old.asked, new.asked) == (["v1alpha1"] * 2, ["v1"])


async def test_large_answers_are_taken(kubelet: Kubelet, client: podresources.PodResourcesClient) -> None:
    """An answer above gRPC's own limit of 4 MiB arrives."""
    kubelet.says([("ml/train", {"main": {"nvidia.com/gpu": ["G" * 1000] * 6000}})])

    listed = await client.pods()

    assert len(kubelet.body) > 4 * 1024 * 1024
    assert len(listed[0].containers[0].devices) == 6000


# ---------------------------------------------------------------- what goes wrong


async def test_missing_socket_is_unreachable(tmp_path: Path, client: podresources.PodResourcesClient) -> None:
    """Where no socket is, nobody answers, and that is known at once."""
    client._deadline = 3600.0

    error = await refusal(client)

    assert error.reason is FailureReason.UNREACHABLE
    assert str(tmp_path / "kubelet.sock") in str(error)


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        pytest.param(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "rejected by rate limit",
            FailureReason.THROTTLED,
            id="rate limit",
        ),
        pytest.param(
            grpc.StatusCode.UNIMPLEMENTED, "unknown service", FailureReason.NOT_SERVED, id="no version"
        ),
        pytest.param(grpc.StatusCode.UNAVAILABLE, "going down", FailureReason.UNREACHABLE, id="going down"),
        pytest.param(
            grpc.StatusCode.UNKNOWN, "cache not ready", FailureReason.FAILED, id="an error of its own"
        ),
        pytest.param(grpc.StatusCode.PERMISSION_DENIED, "no", FailureReason.FAILED, id="forbidden"),
    ],
)
async def test_refusals_of_the_kubelet_are_told_apart(
    kubelet: Kubelet,
    client: podresources.PodResourcesClient,
    code: grpc.StatusCode,
    text: str,
    reason: FailureReason,
) -> None:
    """Each way in which the kubelet refuses has its word; it is asked once in each version."""
    kubelet.refusal = code, text

    assert (await refusal(client)).reason is reason
    assert kubelet.asked == (["v1", "v1alpha1"] if reason is FailureReason.NOT_SERVED else ["v1"])


async def test_hung_kubelet_is_left_at_the_deadline(
    kubelet: Kubelet, client: podresources.PodResourcesClient
) -> None:
    """A kubelet that takes the question and never answers costs the deadline, while all else goes on."""
    kubelet.gate = asyncio.Event()
    client._deadline = SOON
    asking = asyncio.create_task(refusal(client))
    await waiting.eventually(lambda: asyncio.sleep(0, kubelet.asked), what="the question")
    assert not asking.done(), "the loop goes on while the kubelet is silent"

    assert (await asking).reason is FailureReason.HUNG
    kubelet.gate.set()


async def test_socket_that_nobody_serves_is_left_at_the_deadline(
    tmp_path: Path, client: podresources.PodResourcesClient
) -> None:
    """A socket that takes connections and never speaks gRPC does not hold the agent up."""
    client._deadline = SOON
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "kubelet.sock"))
        mute.listen()
        error = await refusal(client)

    assert error.reason in {FailureReason.HUNG, FailureReason.UNREACHABLE}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"\xff\xff\xff", FailureReason.UNREADABLE, id="no protobuf"),
        pytest.param(answer([("ml/p", {"c": {"r": ["1"]}})])[:-3], FailureReason.UNREADABLE, id="cut short"),
        pytest.param(field(1, field(1, b"\xff\xfe")), FailureReason.UNREADABLE, id="a name that is no text"),
        pytest.param(bytes(podresources.LARGEST_ANSWER + 1), FailureReason.TOO_LARGE, id="above the limit"),
        pytest.param(field(1, b"") * 10_001, FailureReason.TOO_LARGE, id="more pods than any node has"),
    ],
)
async def test_unusable_answer_is_refused(
    kubelet: Kubelet, client: podresources.PodResourcesClient, body: bytes, reason: FailureReason
) -> None:
    """An answer that is no list of pods is told as such, and never taken for an empty one."""
    kubelet.body = body

    assert (await refusal(client)).reason is reason


async def test_reading_a_large_answer_holds_nobody_up(
    kubelet: Kubelet, client: podresources.PodResourcesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an answer is read, the loop goes on: it has a Lease to renew."""
    reading, loop_went_on = threading.Event(), threading.Event()

    def listed(_body: bytes) -> Iterator[messages.Message]:
        reading.set()
        assert loop_went_on.wait(60.0)
        return iter(())

    monkeypatch.setattr(messages, "listed", listed)
    asking = asyncio.create_task(client.pods())
    await asyncio.to_thread(reading.wait, 60.0)
    loop_went_on.set()

    assert await asking == ()
    assert kubelet.asked == ["v1"]


async def test_what_the_kubelet_says_of_itself_is_one_line(
    kubelet: Kubelet, client: podresources.PodResourcesClient
) -> None:
    """The words of a refusal land in a condition: nothing of them steers a terminal, or is of any length."""
    kubelet.refusal = grpc.StatusCode.UNKNOWN, "cache\x1b[2J\nnot ready " + "!" * 4000

    error = await refusal(client)

    assert str(error).startswith(r"The kubelet refuses: cache\x1b[2J not ready !!")
    assert len(str(error)) == text.LONGEST


async def test_kubelet_that_restarts_is_found_again(
    kubelet: Kubelet, client: podresources.PodResourcesClient
) -> None:
    """After a restart, with a new socket at the same path, the very next question is answered."""
    await client.pods()
    await kubelet.stop()
    error = await refusal(client)
    kubelet.says([("ml/train", {})])
    await kubelet.start()

    assert error.reason is FailureReason.UNREACHABLE
    assert await client.pods() == (ListedPod("ml", "train"),)
