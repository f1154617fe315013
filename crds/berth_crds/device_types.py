"""The types of device beside GPUs that pods ask for, each by a resource of its own.

RDMA devices and FPGAs are built in. A package may add further ones (`device_packages`), once, before anything
is read: `BY_NAME` and `BY_RESOURCE` do not change afterwards. A Device may list devices of any other type as
well, which no pod can ask for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from berth_crds import card_part, device_sources, names, vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDescription:
    """What both programs know of a type: its name in the Device, the resource, and words for people.

    Several pods may have a part of a device that is `shared`, and its resource counts percent: 100 is a
    device. Others are given whole, and their resource counts them. `source` makes what finds and opens the
    devices of a node; without one, files list them. Only agents call it, so it may import what an operator
    lacks.
    """

    name: str
    resource: str
    shared: bool = False
    singular: str = ""
    plural: str = ""
    source: Callable[[device_sources.SourceNode], device_sources.DeviceSource] | None = None

    @property
    def amount(self) -> int:
        """How much of the resource a whole device is."""
        return card_part.WHOLE if self.shared else 1

    def noun(self, count: int) -> str:
        """Return what so many devices are called."""
        return (
            (self.singular or f"{self.name} device")
            if count == 1
            else (self.plural or f"{self.name} devices")
        )


FPGA: Final = TypeDescription(name=vocabulary.DeviceType.FPGA.value, resource=names.FPGA, shared=True)
RDMA: Final = TypeDescription(name=vocabulary.DeviceType.RDMA.value, resource=names.RDMA, shared=True)
BUILT_IN: Final = (FPGA, RDMA)

_by_name: Final = {one.name: one for one in BUILT_IN}
_by_resource: Final = {one.resource: one for one in BUILT_IN}
# Only `add` changes them. Each resource of each pod is looked up here, so no view stands before them.
BY_NAME: Final[Mapping[str, TypeDescription]] = _by_name
BY_RESOURCE: Final[Mapping[str, TypeDescription]] = _by_resource


def is_opened(name: str) -> bool:
    """Whether agents open devices of a type to containers, by the source of a package."""
    return name in BY_NAME and BY_NAME[name].source is not None


def add(description: TypeDescription) -> None:
    """Serve one more type; whether it goes with the others is checked before."""
    _by_name[description.name] = description
    _by_resource[description.resource] = description


def remove(description: TypeDescription) -> None:
    """Serve a type no more."""
    del _by_name[description.name], _by_resource[description.resource]
