"""Which containers that Berth gave nothing to ask the runtime for cards that nobody gave them. Pure.

NVIDIA's runtime obeys the variable NVIDIA_VISIBLE_DEVICES of any container, and CUDA images set it to
`all`; it takes an old CUDA image without the variable for one that says so. A container keeps the variable
where it names cards that the kubelet gave it by a device plugin. What a pod says itself wins over what the
plugin says, so the names are compared.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from berth_agent.delivery.containers import VISIBLE_DEVICES, Delivery
from berth_crds import names

# What the runtime takes for no card.
HARMLESS: Final = frozenset({"none", names.NO_CARDS})
ALL: Final = "all"
# By the first of these the runtime knows a CUDA image, and by the second that it is no old one.
OF_CUDA_IMAGES, OF_NEWER_IMAGES = "CUDA_VERSION", "NVIDIA_REQUIRE_CUDA"
UUIDS: Final = ("GPU-", "MIG-")
VOLUME_FOLDER: Final = (
    "/var/run/nvidia-container-devices"  # There the cards are mounts, which only a plugin makes.
)


def asked_for(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the cards that an environment asks the runtime for, in its words."""
    variables = {name: value for name, _, value in (text.partition("=") for text in environment)}
    value = variables.get(VISIBLE_DEVICES)
    if value is None:
        # An empty variable is none to the runtime.
        return (ALL,) if variables.get(OF_CUDA_IMAGES) and not variables.get(OF_NEWER_IMAGES) else ()
    words = (word.strip() for word in value.split(","))
    return tuple(word for word in words if word and word not in HARMLESS)


def is_stray(
    asked: Sequence[str],
    given: Collection[str] | None,
    uuid_of_index: Mapping[str, str],
    *,
    requests_cards: bool | None = None,
) -> bool:
    """Whether a container asks for cards other than those of these uuids, which the kubelet gave it.

    None stands for a container that the kubelet does not list. It lists no init containers, so what a plugin
    may have written for one is kept: anything but `all` where it requests cards, and the uuids of cards where
    that is not known.
    """
    if given is None and requests_cards is not False:
        return ALL in asked if requests_cards else not all(word.startswith(UUIDS) for word in asked)
    if given and list(asked) == [VOLUME_FOLDER]:
        return False
    return not {uuid_of_index.get(word, word) for word in asked} <= set(given or ())


def only(given: Collection[str] | None) -> Delivery:
    """Return what a container that asked for others gets: the cards that the kubelet gave it, if any."""
    return Delivery({VISIBLE_DEVICES: ",".join(sorted(given or ())) or names.NO_CARDS})
