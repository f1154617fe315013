"""What a container gets with the devices that the kubelet chose, by each of NVIDIA's strategies. Pure."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from berth_agent.cdi import specs
from berth_agent.delivery import guard
from berth_agent.delivery.containers import VISIBLE_DEVICES, GivenCard, Limits, Mount
from berth_agent.delivery.device_nodes import DEV
from berth_agent.delivery.means import DirectMeans
from berth_agent.kubelet.plugin_messages import ContainerResponse, PluginMount
from berth_agent.plugin_choices import CDI_ANNOTATIONS, CDI_CRI, ENVVAR, UUID, VOLUME_MOUNTS, PluginChoices

VOLUME_FOLDER: Final = Path(guard.VOLUME_FOLDER)
EMPTY_FILE: Final = "/dev/null"


def response(
    given: Sequence[GivenCard],
    choices: PluginChoices,
    means: DirectMeans,
    *,
    host_dev: Path = DEV,
    visible: Sequence[GivenCard] = (),
    unique: Callable[[], object] = uuid.uuid4,
) -> ContainerResponse:
    """Return what a container gets with these cards, or raise `Undeliverable` where a device node is missing.

    With those that it gets by other resources these make up what is `visible`: the kubelet asks about each
    resource, and of one variable it keeps what was said about any.
    """
    ids = [_id(card, choices.id_strategy) for card in given]
    chosen = choices.list_strategies
    cdi_devices = tuple(f"{specs.KIND}={card.uuid}" for card in given)
    env: dict[str, str] = {}
    mounts: tuple[PluginMount, ...] = ()
    if VOLUME_MOUNTS in chosen:
        env = {VISIBLE_DEVICES: f"{VOLUME_FOLDER}"}
        mounts = tuple(PluginMount(f"{VOLUME_FOLDER / name}", EMPTY_FILE) for name in ids)
    elif ENVVAR in chosen:
        env = {VISIBLE_DEVICES: ",".join(_id(card, choices.id_strategy) for card in visible or given)}
    opened = bool(env)
    return ContainerResponse(
        env=env,
        mounts=mounts,
        device_nodes=_device_nodes(given, means, host_dev) if opened and choices.pass_device_specs else (),
        annotations=_annotation(choices.cdi_annotation_prefix, cdi_devices, unique)
        if CDI_ANNOTATIONS in chosen
        else {},
        cdi_devices=cdi_devices if CDI_CRI in chosen else (),
    )


def limited(answer: ContainerResponse, limits: Limits) -> ContainerResponse:
    """Return an answer with what keeps the container to its parts of cards."""
    mounts = answer.mounts + tuple(map(_mount, limits.mounts))
    return answer._replace(env={**answer.env, **limits.env}, mounts=mounts)


def _mount(mount: Mount) -> PluginMount:
    return PluginMount(mount.destination, mount.source, read_only="ro" in mount.options)


def _id(given: GivenCard, strategy: str) -> str:
    """Return how a container knows a card: by uuid, or by the driver's index where that is known."""
    index = given.card.index
    if strategy == UUID or index is None:
        return given.uuid
    if given.instance is None:
        return str(index)
    instances = given.card.mig.instances if given.card.mig else ()
    return f"{index}:{instances.index(given.instance)}"


def _device_nodes(
    given: Sequence[GivenCard], means: DirectMeans, host_dev: Path
) -> tuple[tuple[str, str], ...]:
    nodes = dict.fromkeys(node for card in given for node in means.of_card(card))
    paths = (node.path for node in (*nodes, *means.device_nodes.of_driver()))
    return tuple((path, f"{host_dev / Path(path).relative_to(DEV)}") for path in paths)


def _annotation(prefix: str, cdi_devices: Sequence[str], unique: Callable[[], object]) -> dict[str, str]:
    """Return the annotation that older runtimes read; its key is new each time: a pod may have several."""
    return {f"{prefix}berth_{unique()}": ",".join(cdi_devices)}
