"""The names that drivers of dynamic resource allocation have for the devices of claims. Pure.

The kubelet names a device of a claim as its driver does. NVIDIA's driver numbers its cards, `gpu-3`; older
versions by the index of the card, newer ones by its minor, and nothing tells which. A MIG instance has the
number of its card and its first slice: `gpu-3-mig-19-4-1`, or `gpu-3-mig-1g10gb-19-4`.
"""

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from berth_agent.kubelet import podresources

NAME: Final = re.compile(r"gpu-(?P<number>\d{1,9})(?:-mig-(?P<place>[a-z0-9-]{1,64}))?", re.ASCII)
# Profile, start and size, all of them numbers; or the name of the profile, its number, and the start.
OLDER_PLACE: Final = re.compile(r"\d+-(?P<start>\d{1,9})-\d+", re.ASCII)
NEWER_PLACE: Final = re.compile(r"[a-z0-9-]+-\d+-(?P<start>\d{1,9})", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class NumberedDevice:
    """A card by its minor or index, or the MIG instance of it that begins at a slice."""

    number: int
    start: int | None = None


def numbered(name: str) -> NumberedDevice | None:
    """Return which device has this name; None for a name of another form."""
    if (found := NAME.fullmatch(name)) is None:
        return None
    place = found["place"] or ""
    at = OLDER_PLACE.fullmatch(place) or NEWER_PLACE.fullmatch(place)
    return NumberedDevice(int(found["number"]), int(at["start"]) if at else None)


def of_container(container: podresources.ListedContainer, drivers: Iterable[str]) -> Iterator[str]:
    """Yield the names of the devices that claims of these drivers brought to a container."""
    patterns = tuple(drivers)
    for claim in container.claims:
        for one in claim.devices:
            if any(fnmatch.fnmatchcase(one.driver, pattern) for pattern in patterns):
                yield one.device
