"""The annotation protocol: how the devices of a pod are written on it, and read back.

The Binding that gives a pod its node also writes, in the same revision, which devices
each of its containers holds. This module is the only one that knows the text of that
record. What it promises: `decode(encode(a)) == a`; equal allocations give equal text;
and `decode` never raises, whatever the text. A record that cannot be trusted to its
last field comes back as `Unreadable`, because the ledger must fail closed on it: a
share that was skipped would look free and be promised twice.

Order is meaning (containers as in the pod, devices as the container sees them), so it
is kept both ways. Fields that a newer Berth adds within version 1 are ignored; nothing
else unexpected is. Whether the devices exist, and whether the node is the pod's, is
for the reader of the allocation to judge.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from berth_crds import card_part, names, schema_limits, vocabulary

FORMAT: Final = 1

# No commas, spaces or quotes: these words are joined by commas and land in environments.
_OPTIONAL: Final = re.compile(r"[A-Za-z0-9._:+-]{0,64}")


class Share(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one container holds of one device; also how that is written.

    `uuid` and `minor` are the device's; a MIG instance has a uuid of its own and the
    minor of its card. `core` is whole percent of the device, `memory` is bytes (0 for a
    device that has none), `profile` names the MIG profile, `vf` is the bus id of the
    virtual function where not the device itself is given, and `replicas` says how many
    replicas of a shared card this is. `limit` is up to how many percent the core of the
    device might be promised in all when this was given, where that was more than 100.
    Zeros are always written: a record that drops minor 0 cannot be told from a damaged one.
    """

    uuid: str
    minor: int
    core: int
    memory: int
    profile: str = ""
    vf: str = ""
    replicas: int = 0
    limit: int = 0


SharesByType = tuple[tuple[str, tuple[Share, ...]], ...]


class Entry(NamedTuple):
    """One share, the container that holds it, and the type of its device."""

    container: str
    type: str
    share: Share


class Allocation(msgspec.Struct, frozen=True):
    """Which devices of which node the containers of one pod hold; build it with `of`."""

    node: str
    containers: tuple[tuple[str, SharesByType], ...]

    def entries(self) -> Iterator[Entry]:
        """Walk over every share, in the order written."""
        for container, types in self.containers:
            for kind, shares in types:
                for share in shares:
                    yield Entry(container, kind, share)


class UnreadableReason(StrEnum):
    """Why a record is unreadable."""

    NOT_JSON = "NotJson"
    DUPLICATE_KEY = "DuplicateKey"
    UNKNOWN_VERSION = "UnknownVersion"
    WRONG_SHAPE = "WrongShape"
    OUT_OF_RANGE = "OutOfRange"
    DUPLICATE_DEVICE = "DuplicateDevice"
    EMPTY = "Empty"


class Unreadable(msgspec.Struct, frozen=True):
    """A record that must not be acted on; `detail` is one line of ASCII for people."""

    reason: UnreadableReason
    detail: str


def of(node: str, containers: Mapping[str, Mapping[str, Iterable[Share]]]) -> Allocation:
    """Build an allocation from mappings: container, then device type, then shares."""
    return Allocation(
        node,
        tuple(
            (container, tuple((kind, tuple(shares)) for kind, shares in types.items()))
            for container, types in containers.items()
        ),
    )


def by_type(shares: Iterable[tuple[str, Share]]) -> dict[str, list[Share]]:
    """Return the shares of one container by the types of their devices, as `of` takes them."""
    found: dict[str, list[Share]] = {}
    for kind, share in shares:
        found.setdefault(kind, []).append(share)
    return found


# ---------------------------------------------------------------- writing


def encode(allocation: Allocation) -> str:
    """Write an allocation as compact JSON, the same text for equal allocations."""
    return msgspec.json.encode(_record(allocation)).decode()


def _record(allocation: Allocation) -> dict[str, object]:
    return {
        "v": FORMAT,
        "node": allocation.node,
        "containers": {container: dict(types) for container, types in allocation.containers},
    }


def annotations(allocation: Allocation, *, term: str) -> dict[str, str]:
    """Return the annotations of a pod with devices; `term` names the leader who decided."""
    answer = {names.ALLOCATION: encode(allocation), names.TERM: term}
    if minors := gpu_minors(allocation):
        answer[names.MINORS] = minors
    for container, types in allocation.containers:
        answer |= without_cards([container])
        for kind, shares in types:
            listed = _lists if kind == vocabulary.DeviceType.GPU else functools.partial(_others, kind)
            answer |= listed(container, shares)
    return answer


def without_cards(containers: Iterable[str]) -> dict[str, str]:
    """Return the annotations of containers that hold no GPU."""
    return {names.container_key(container, "uuids"): names.NO_CARDS for container in containers}


def gpu_minors(allocation: Allocation) -> str:
    """List the minors of the pod's GPUs for people: sorted, each once, such as `0,1`."""
    gpus = {entry.share.minor for entry in allocation.entries() if entry.type == vocabulary.DeviceType.GPU}
    return _joined(sorted(gpus))


def _others(kind: str, container: str, shares: tuple[Share, ...]) -> dict[str, str]:
    """Name the devices that are no GPUs under their own type: the GPU runtime must not see them."""
    functions = [share.vf for share in shares if share.vf]
    answer = {names.container_key(container, kind): _joined(dict.fromkeys(share.uuid for share in shares))}
    return answer | ({names.container_key(container, f"{kind}-vfs"): _joined(functions)} if functions else {})


def _lists(container: str, shares: tuple[Share, ...]) -> dict[str, str]:
    return {
        names.container_key(container, "uuids"): _joined([share.uuid for share in shares]),
        names.container_key(container, "minors"): _joined([share.minor for share in shares]),
        names.container_key(container, "memory"): _joined([share.memory for share in shares]),
        names.container_key(container, "core"): _joined([share.core for share in shares]),
    }


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


# ---------------------------------------------------------------- reading


def decode(text: str) -> Allocation | Unreadable:
    """Read an allocation back, or say why it cannot be read; never raises."""
    try:
        return _allocation(_parsed(text))
    except _UnreadableError as error:
        return error.unreadable


def checked(allocation: Allocation) -> Allocation | Unreadable:
    """Return an allocation that was made of something else, or say why its record could not be read."""
    try:
        return _allocation(msgspec.to_builtins(_record(allocation)))
    except _UnreadableError as error:
        return error.unreadable


class _UnreadableError(Exception):
    """Carries the first fault from the field where it is up to `decode` and `checked`."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(unreadable.detail)
        self.unreadable = unreadable


def _refuse(reason: UnreadableReason, detail: str) -> NoReturn:
    raise _UnreadableError(Unreadable(reason, detail))


def _parsed(text: str) -> object:
    try:
        return _decoder.decode(text)
    except RecursionError:
        _refuse(UnreadableReason.NOT_JSON, "nested too deep")
    except ValueError as error:  # also for numbers of thousands of digits
        _refuse(UnreadableReason.NOT_JSON, ascii(str(error))[1:-1])


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON parsers disagree on which of two equal keys holds; one of the readings
    # would free a device that is in use.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        _refuse(UnreadableReason.DUPLICATE_KEY, "a field is written twice in one object")
    return fields


def _no_constant(name: str) -> NoReturn:
    _refuse(UnreadableReason.NOT_JSON, f"{name} is not JSON")


_decoder: Final = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_no_constant)


def _allocation(record: object) -> Allocation:
    fields = _mapping(record, "the record")
    _version(fields.get("v"))
    node = _word(fields, "node", pattern=schema_limits.DNS_SUBDOMAIN.regex, path="")
    containers = _mapping(fields.get("containers"), "containers")
    allocation = Allocation(node, tuple(_container(name, types) for name, types in containers.items()))
    if next(allocation.entries(), None) is None:
        _refuse(UnreadableReason.EMPTY, "containers: no device is named")
    return allocation


def _version(version: object) -> None:
    if type(version) is not int:
        _refuse(UnreadableReason.WRONG_SHAPE, f"v: expected a whole number, found {_shown(version)}")
    if version != FORMAT:
        _refuse(
            UnreadableReason.UNKNOWN_VERSION, f"v: this Berth reads version {FORMAT}, found {_shown(version)}"
        )


def _container(name: str, types: object) -> tuple[str, SharesByType]:
    path = f"containers.{_label(name, 'containers')}"
    by_type = _mapping(types, path)
    return name, tuple(
        (_label(kind, path), _shares(listed, f"{path}.{kind}")) for kind, listed in by_type.items()
    )


def _shares(listed: object, path: str) -> tuple[Share, ...]:
    if not isinstance(listed, list | tuple):
        _refuse(UnreadableReason.WRONG_SHAPE, f"{path}: expected a list, found {_shown(listed)}")
    shares = tuple(_share(fields, f"{path}[{at}]") for at, fields in enumerate(listed))
    if len({(share.uuid, share.vf) for share in shares}) < len(shares):
        _refuse(UnreadableReason.DUPLICATE_DEVICE, f"{path}: a device is named twice")
    return shares


def _share(listed: object, path: str) -> Share:
    fields = _mapping(listed, path)
    return Share(
        uuid=_word(fields, "uuid", pattern=schema_limits.UUID.regex, path=path),
        minor=_whole(fields, "minor", most=schema_limits.LARGEST_MINOR, path=path),
        core=_whole(fields, "core", most=card_part.WHOLE, path=path),
        memory=_whole(fields, "memory", most=schema_limits.LARGEST_MEMORY, path=path),
        profile=_optional(fields, "profile", path=path),
        vf=_optional(fields, "vf", path=path),
        replicas=_whole(fields, "replicas", most=schema_limits.MOST_REPLICAS, path=path)
        if "replicas" in fields
        else 0,
        limit=_whole(fields, "limit", most=schema_limits.MOST_CORE, path=path) if "limit" in fields else 0,
    )


def _mapping(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        _refuse(UnreadableReason.WRONG_SHAPE, f"{path}: expected an object, found {_shown(value)}")
    return value


def _whole(fields: Mapping[str, object], name: str, *, most: int, path: str) -> int:
    value = fields.get(name)
    if type(value) is not int:  # not isinstance: true is an int to Python
        _refuse(
            UnreadableReason.WRONG_SHAPE, f"{path}.{name}: expected a whole number, found {_shown(value)}"
        )
    if not 0 <= value <= most:
        _refuse(UnreadableReason.OUT_OF_RANGE, f"{path}.{name}: expected 0 to {most}, found {_shown(value)}")
    return value


def _word(fields: Mapping[str, object], name: str, *, pattern: re.Pattern[str], path: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        where = f"{path}.{name}" if path else name
        _refuse(UnreadableReason.WRONG_SHAPE, f"{where}: not a well-formed name: {_shown(value)}")
    return value


def _optional(fields: Mapping[str, object], name: str, *, path: str) -> str:
    return _word(fields, name, pattern=_OPTIONAL, path=path) if name in fields else ""


def _label(name: str, path: str) -> str:
    if not schema_limits.DNS_LABEL.regex.fullmatch(name):
        _refuse(UnreadableReason.WRONG_SHAPE, f"{path}: not a well-formed name: {_shown(name)}")
    return name


_LONGEST_SHOWN: Final = 60


def _shown(value: object) -> str:
    """Show a value in one short line of ASCII; nested ones by their kind alone."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    shown = ascii(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
