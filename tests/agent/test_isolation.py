"""What keeps containers to their parts of cards: MPS, HAMi's library, or nothing."""

from pathlib import Path

import pytest

from berth_agent.delivery import isolation
from berth_agent.delivery.containers import Delivery, Edits, GivenCard, Limits, Mount, Part, Undeliverable
from berth_agent.nri import messages
from berth_crds import catalog, wire
from support.podresources import field

SIZE = 16 * catalog.GIB
CARD, OTHER = wire.Card("GPU-a", "gpu", 0, memory=SIZE), wire.Card("GPU-b", "gpu", 1, memory=SIZE)
INSTANCE = wire.MigInstance("MIG-1", "1g.10gb", 10)
WHOLE = Part(GivenCard(CARD), 100, SIZE)
HALF = Part(GivenCard(CARD), 50, SIZE // 2)
QUARTER = Part(GivenCard(OTHER), 25, SIZE // 4)
MEMORY_ALONE = Part(GivenCard(CARD), 0, SIZE // 2)
CUT = Part(GivenCard(OTHER, INSTANCE), 100, 10)
ROOT = Path("/run/mps")


class Daemon:
    """A daemon of MPS that serves, or does not."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.root = ROOT


MPS = isolation.MpsIsolation(Daemon())
MPS_ENV = {"CUDA_MPS_PIPE_DIRECTORY": "/mps/pipe"}
MPS_MOUNTS = (
    Mount("/run/mps/pipe", "/mps/pipe", ("rw", "nosuid", "nodev", "rbind", "rprivate")),
    Mount("/run/mps/shm", "/dev/shm", ("rw", "nosuid", "nodev", "rbind", "rprivate"), replaces=True),  # noqa: S108
)


@pytest.mark.parametrize(
    ("parts", "env"),
    [
        pytest.param([WHOLE], {}, id="whole cards have no limit, and need the daemon all the same"),
        pytest.param(
            [HALF],
            {
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            },
            id="a part",
        ),
        pytest.param(
            [WHOLE, QUARTER, HALF],
            {
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=4096M,2=8192M",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
                "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-a",
            },
            id="by the place of the card in the container; of several the smallest",
        ),
        pytest.param([MEMORY_ALONE], {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M"}, id="memory alone"),
    ],
)
def test_mps_has_its_limits_from_the_part(parts: list[Part], env: dict[str, str]) -> None:
    """With the way to its daemon."""
    assert MPS.limits(parts) == Limits(MPS_ENV | env, MPS_MOUNTS)


def test_instances_are_no_matter_of_mps() -> None:
    """The hardware isolates them."""
    assert MPS.limits([CUT]) == Limits()


def test_a_container_is_not_made_while_mps_does_not_serve() -> None:
    """It would take more than its part, or find a card that lets nobody on it."""
    broken = isolation.MpsIsolation(Daemon("it does not answer"))
    with pytest.raises(Undeliverable, match="MPS does not serve: it does not answer"):
        broken.limits([WHOLE])
    assert broken.limits([CUT]) == Limits()
    assert (broken.state().failure, MPS.state().failure, MPS.state().reason) == (
        "it does not answer",
        "",
        "ByMPS",
    )


def test_hamis_library_has_its_limits_from_the_part(tmp_path: Path) -> None:
    """It is mounted only where a container has a part, and where the node lacks it, that is not made."""
    hami = isolation.HamiIsolation(tmp_path)
    with pytest.raises(Undeliverable, match=r"HAMi's libvgpu\.so is not in "):
        hami.limits([HALF])
    assert hami.state().failure.startswith("HAMi's libvgpu.so is not in ")
    (tmp_path / "libvgpu.so").touch()
    assert hami.state().failure.startswith("HAMi's ld.so.preload is not in ")
    (tmp_path / "ld.so.preload").touch()

    assert (hami.state().failure, hami.state().reason) == ("", "ByHAMi")
    assert hami.limits([WHOLE, CUT]) == Limits()
    assert hami.limits([WHOLE, HALF, QUARTER]) == Limits(
        {
            "CUDA_DEVICE_MEMORY_LIMIT_1": "8192m",
            "CUDA_DEVICE_MEMORY_LIMIT_2": "4096m",
            "CUDA_DEVICE_SM_LIMIT": "25",
            "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-a,GPU-b",
        },
        (
            Mount(f"{tmp_path}/libvgpu.so", "/usr/local/vgpu/libvgpu.so"),
            Mount(f"{tmp_path}/ld.so.preload", "/etc/ld.so.preload"),
        ),
    )


def test_nothing_is_enforced_unless_somebody_says_by_what() -> None:
    """And that is said."""
    assert isolation.NOT_ISOLATED.limits([HALF]) == Limits()
    assert isolation.NOT_ISOLATED.state().failure.startswith("Nothing stops a program")


def test_the_runtimes_own_mount_gives_way() -> None:
    """It is removed before the other takes its place."""
    sent = messages.adjusted(Delivery({}, Edits(mounts=MPS_MOUNTS[1:])))
    removal = field(3, field(1, "-/dev/shm"))
    options = b"".join(field(4, one) for one in MPS_MOUNTS[1].options)
    mount = field(3, field(1, "/dev/shm") + field(2, "bind") + field(3, "/run/mps/shm") + options)  # noqa: S108
    assert sent == field(1, removal + mount)
