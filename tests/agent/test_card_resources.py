"""Each device says how much it gives of each resource that pods ask for (K3)."""

from collections.abc import Mapping

import pytest

from berth_agent import card_resources
from berth_crds import wire

CUT = wire.Mig(
    True,
    (
        wire.MigInstance("MIG-1", "2g.10gb", 10),
        wire.MigInstance("MIG-2", "1g.5gb+me", 5),
        wire.MigInstance("MIG-3", "2g.10gb", 10),
    ),
)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param(
            wire.Card("GPU-1", "gpu", 0, memory=16, mig=wire.Mig(False)),
            {
                "berth.dev/gpu": 100,
                "berth.dev/gpu-core": 100,
                "berth.dev/gpu-memory": 16,
                "berth.dev/gpu-memory-ratio": 100,
            },
            id="a card, whole or in parts",
        ),
        pytest.param(
            wire.Card("GPU-1", "gpu", 0, memory=16, sharing=wire.Sharing("mps", 3)),
            {"berth.dev/gpu.shared": 3},
            id="replicas",
        ),
        pytest.param(
            wire.Card("GPU-1", "gpu", 0, memory=16, mig=CUT),
            {"nvidia.com/mig-1g.5gb.me": 1, "nvidia.com/mig-2g.10gb": 2},
            id="instances by their profiles",
        ),
        pytest.param(
            wire.Card("GPU-1", "gpu", 0, mig=wire.Mig(True)), {}, id="a card that is cut into nothing"
        ),
        pytest.param(wire.Card("rdma-1", "rdma", 0), {"berth.dev/rdma": 100}, id="a network card"),
        pytest.param(wire.Card("fpga-1", "fpga", 0), {"berth.dev/fpga": 100}, id="an FPGA"),
        pytest.param(wire.Card("npu-1", "npu", 0), {}, id="a device of a type that nothing asks for by name"),
    ],
)
def test_what_a_device_gives(device: wire.Card, expected: Mapping[str, int]) -> None:
    """By the names by which pods ask for it."""
    assert card_resources.of_device(device) == expected
