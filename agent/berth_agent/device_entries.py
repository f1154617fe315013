"""What a file of the folder of devices may hold: devices of other makers, and labels of any device.

All limits are those of the server, which refuses a whole Device for one bad value, and the labels that a file
gives are such as Kubernetes' selectors can name.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from berth_crds import schema_limits, text, vocabulary

MOST_LABELS: Final = 16  # Of one entry.
MOST_ENTRIES: Final = 256  # With labels, of one file: a device may have as many virtual functions.
EXAMPLE: Final = "write for instance fabric or example.com/fabric"

Text = Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_LABEL)]
Labels = Annotated[dict[str, str], msgspec.Meta(max_length=MOST_LABELS)]
Minor = Annotated[int, msgspec.Meta(ge=0, le=schema_limits.LARGEST_MINOR)]


def _formatted(text_format: schema_limits.TextFormat, *, optional: bool = False) -> msgspec.Meta:
    """Return the constraint that a text has a format, or is empty where that is optional."""
    pattern = f"({text_format.pattern})?" if optional else text_format.pattern
    return msgspec.Meta(max_length=text_format.longest, pattern=f"^{pattern}\\Z")


Uuid = Annotated[str, _formatted(schema_limits.UUID)]
Type = Annotated[str, _formatted(schema_limits.DNS_LABEL)]
BusId = Annotated[str, _formatted(schema_limits.BUS_ID)]


class DeviceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One device of a file, within what the schema takes."""

    uuid: Uuid
    type: Type
    minor: Minor
    vendor: Annotated[str, _formatted(schema_limits.VENDOR, optional=True)] = ""
    model: Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_MODEL)] = ""
    memory: Annotated[int, msgspec.Meta(ge=1, le=schema_limits.LARGEST_MEMORY)] | None = None
    bus_id: BusId | None = msgspec.field(default=None, name="busID")
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=MOST_LABELS)] = {}
    health: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: Annotated[
        str, msgspec.Meta(max_length=schema_limits.REASON.longest, pattern="^[A-Za-z][A-Za-z0-9]*\\Z")
    ] = "ToldByFile"
    message: Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_MESSAGE)] = ""


class LabelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Labels for devices that are found anyhow: for those to which all that is said of them applies.

    `function_labels` are for all virtual functions of these devices. `bus_id` may be the address of a single
    virtual function, to which `labels` then go.
    """

    uuid: Uuid | None = None
    type: Type | None = None
    minor: Minor | None = None
    bus_id: BusId | None = msgspec.field(default=None, name="busID")
    labels: Labels = {}
    function_labels: Labels = {}


Devices = Annotated[tuple[DeviceEntry, ...], msgspec.Meta(max_length=schema_limits.MOST_DEVICES)]


class DeviceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    listed: Devices | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="devices")
    labels: Annotated[tuple[LabelEntry, ...], msgspec.Meta(max_length=MOST_ENTRIES)] = ()

    @property
    def devices(self) -> Devices:
        """Return the devices that it lists."""
        return self.listed or ()


_decoder: Final = msgspec.json.Decoder(DeviceFile)


def decode(content: bytes) -> DeviceFile:
    """Return what a file holds, or raise ValueError with a clause for one that cannot be used."""
    file = _decoder.decode(content)
    if fault := next(_faults(file), ""):
        raise ValueError(fault)
    return file


def _faults(file: DeviceFile) -> Iterator[str]:
    if file.listed is msgspec.UNSET and not file.labels:
        yield "it has neither devices nor labels"
    for entry in file.devices:
        if entry.type == vocabulary.DeviceType.GPU and entry.memory is None:
            yield f"{entry.uuid} is of type gpu and must have memory"
    for number, labelled in enumerate(file.labels, start=1):
        if fault := _entry_fault(labelled):
            yield f"entry {number} of its labels {fault}"


def _entry_fault(entry: LabelEntry) -> str:
    """Return what is wrong with an entry, to be read behind its name; empty for nothing."""
    if entry.uuid is None and entry.bus_id is None and entry.type is None:
        return "names no device; write uuid, busID, or type, with or without minor"
    if not entry.labels and not entry.function_labels:
        return "gives none; write labels or functionLabels"
    fault = labels_fault(entry.labels) or labels_fault(entry.function_labels)
    return f"cannot be used: {fault}" if fault else ""


def labels_fault(labels: Mapping[str, str]) -> str:
    """Return why some labels are none of Kubernetes, as a clause; empty for nothing."""
    return next(filter(None, (_label_fault(key, value) for key, value in labels.items())), "")


def _label_fault(key: str, value: str) -> str:
    prefix, slash, name = key.rpartition("/")
    proper = schema_limits.LABEL_NAME.matches(name) and (
        not slash or schema_limits.DNS_SUBDOMAIN.matches(prefix)
    )
    if not proper or len(key) > schema_limits.LONGEST_LABEL:
        return f"{text.quoted(key)} is no key of a label; {EXAMPLE}"
    if value and not schema_limits.LABEL_NAME.matches(value):
        return (
            f"{text.quoted(value)} is no value of the label {text.quoted(key)}; it has at most 63 letters, "
            f"digits, '-', '_' and '.', and begins and ends with a letter or digit"
        )
    return ""
