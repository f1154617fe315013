"""What all devices of a Device may be together, as rules of its CRD.

Each list has a bound of its own, but a Device with all of them full would cost the server
seconds at each write, for it goes through all of an object whatever of it changes.
"""

from typing import Final

from berth_crds import model_rules, schema_limits


def _size(found: str) -> str:
    """Return how many there are of what may be absent, in CEL."""
    return f"(has({found}) ? {found}.size() : 0)"


def _characters(labels: str) -> str:
    """Return how many characters labels have, in CEL."""
    return f"(has({labels}) ? {labels}.map(key, key.size() + {labels}[key].size()).sum() : 0)"


def _of_groups(each: str) -> str:
    """Return the sum of something over the groups of virtual functions of a device, in CEL."""
    return f"(has(device.vfGroups) ? device.vfGroups.map(group, {each}).sum() : 0)"


def _rule(each: str, most: int, what: str) -> model_rules.Rule:
    """Return the rule that something of all devices is so much at most."""
    rule = f"!has(self.devices) || self.devices.map(device, {each}).sum() <= {most}"
    return model_rules.Rule(rule, f"all devices together have at most {most} {what}")


_uuids: Final = f"1 + (has(device.mig) ? {_size('device.mig.instances')} : 0)"
_labels: Final = _size("group.labels")
_vfs: Final = _size("group.vfs")
_texts: Final = _of_groups(_characters("group.labels"))

OF_SPEC: Final = (
    _rule(_uuids, schema_limits.TOTAL_UUIDS, "uuids, those of MIG instances included"),
    _rule(_size("device.links"), schema_limits.TOTAL_LINKS, "links"),
    _rule(_of_groups(_vfs), schema_limits.TOTAL_FUNCTIONS, "virtual functions"),
    _rule(f"{_size('device.labels')} + {_of_groups(_labels)}", schema_limits.TOTAL_LABELS, "labels"),
    _rule(
        _of_groups(f"{_labels} * {_vfs}"),
        schema_limits.TOTAL_FUNCTION_LABELS,
        "labels of virtual functions, counted for each of them",
    ),
    _rule(
        f"{_characters('device.labels')} + {_texts}", schema_limits.TOTAL_LABEL_TEXT, "characters in labels"
    ),
)
OF_STATUS: Final = (_rule(_size("device.occupants"), schema_limits.TOTAL_OCCUPANTS, "occupants"),)
