"""The NPU X of Example, as Berth's operator and agents know it."""

from berth_crds.device_sources import DeviceSource, SourceNode
from berth_crds.device_types import TypeDescription


def _source(node: SourceNode) -> DeviceSource:
    # Not at the top: only agents have a use for it.
    from npu_x_source import NpuSource  # noqa: PLC0415

    return NpuSource(node)


NPU_X = TypeDescription(
    name="npu-x",
    resource="example.com/npu",
    singular="NPU X of Example",
    plural="NPUs X of Example",
    source=_source,
)
