"""What the API server is to change in a pod: the same as the policies of manifests/env-delivery.yaml."""

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from berth_crds import names, wire

Operation = dict[str, Any]  # One step of a JSON Patch.

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
# The variables of a container, each with the field of the bind's annotations that feeds it.
FED: Final = {VISIBLE_DEVICES: "uuids", "BERTH_GPU_MEMORY": "memory", "BERTH_GPU_CORE": "core"}


class Variable(wire.Struct, frozen=True):
    """A variable of a container, of which only the name matters here."""

    name: str = ""


class Container(wire.Struct, frozen=True):
    """A container; its variables stay as they were written."""

    name: str = ""
    env: tuple[msgspec.Raw, ...] | None = None


class Spec(wire.Struct, frozen=True):
    """What of a pod decides how it is changed."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[Container, ...] | None = None


def container_count(spec: Spec) -> int:
    """Return how many containers a pod has, of all kinds."""
    kinds = spec.containers, spec.init_containers, spec.ephemeral_containers
    return sum(len(containers or ()) for containers in kinds)


def feed(spec: Spec) -> Iterator[Operation]:
    """Yield that each container reads its devices from the annotations that the bind will write.

    Our variables come first, so that the pod's own may refer to them.
    """
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for at, one in enumerate(containers or ()):
            fed = [
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": _annotation(one.name, field)}}}
                for name, field in FED.items()
            ]
            yield _set_env(kind, at, [*fed, *_without(FED, one)])


def claim(spec: Spec) -> Iterator[Operation]:
    """Yield that the pod is Berth's, with all that this brings."""
    yield {"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER_NAME}
    yield from feed(spec)


def blind(spec: Spec, before: Spec) -> Iterator[Operation]:
    """Yield that containers which were not there before, to look into a running pod, see no device."""
    known = {one.name for one in before.ephemeral_containers or ()}
    for at, one in enumerate(spec.ephemeral_containers or ()):
        if one.name not in known:
            void = {"name": VISIBLE_DEVICES, "value": names.NO_CARDS}
            yield _set_env("ephemeralContainers", at, [void, *_without({VISIBLE_DEVICES}, one)])


def _annotation(container: str, field: str) -> str:
    return f"metadata.annotations['{names.container_key(container, field)}']"


def _without(those: Collection[str], container: Container) -> Iterator[msgspec.Raw]:
    for one in container.env or ():
        if msgspec.json.decode(one, type=Variable).name not in those:
            yield one


def _set_env(kind: str, at: int, env: list[Any]) -> Operation:
    return {"op": "add", "path": f"/spec/{kind}/{at}/env", "value": env}
