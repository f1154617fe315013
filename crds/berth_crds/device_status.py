"""The status of a Device: verdicts on its cards, whether its sources answer, whose its cards are.

The agent of the node writes the verdicts and the conditions of its sources; all else is the
operator's: whether the agent is alive, counts for people, and what must not be forgotten of
whose a uuid is when the operator starts anew. `device` is the rest of the source of the CRD. The
rules of what all devices may be together, in spec and status, are here as well.
"""

from typing import Annotated, Final

import pydantic

from berth_crds import model_rules, schema_limits, vocabulary

# ---------------------------------------------------------------- all devices together
#
# Each list has a bound of its own, but a Device with all of them full would cost the server seconds at
# each write, for it goes through all of an object whatever of it changes. Most of the time of a rule is that
# of its reads: each time that a field is read the server lists all fields of its owner. So these rules read
# each field of a device once at most, and a list of one list is a variable.


def _size(owner: str, field: str) -> str:
    """Return how many entries a list has that may be absent, in CEL."""
    return f"{owner}.?{field}.orValue([]).size()"


def _rule(each: str, most: int, what: str, *, most_of_one: int) -> model_rules.Rule:
    """Return the rule that something of all devices is so much at most.

    Where there are too few devices for that, since one has `most_of_one` at most, nothing is counted.
    """
    count = f"self.devices.map(device, {each}).sum() <= {most}"
    rule = f"!has(self.devices) || self.devices.size() <= {most // most_of_one} || {count}"
    return model_rules.Rule(rule, f"all devices together have at most {most} {what}")


def _of_groups(each: str) -> str:
    """Return the sum of something over all groups of virtual functions, in CEL."""
    return f"grouped.map(groups, groups.map(group, {each}).sum()).sum()"


def _labels_and_functions() -> model_rules.Rule:
    """Return the rule of what devices and their groups of virtual functions have bounds for together."""
    of_group, functions = "group.?labels.orValue({})", _size("group", "vfs")
    characters = "one.map(key, key.size() + one[key].size()).sum()"
    bounds = {
        _of_groups(functions): schema_limits.TOTAL_FUNCTIONS,
        _of_groups(f"{of_group}.size() * {functions}"): schema_limits.TOTAL_FUNCTION_LABELS,
        f"labels.map(one, one.size()).sum() + {_of_groups(f'{of_group}.size()')}": schema_limits.TOTAL_LABELS,
        f"labels.map(one, {characters}).sum() + {_of_groups(f'[{of_group}].map(one, {characters}).sum()')}": (
            schema_limits.TOTAL_LABEL_TEXT
        ),
    }
    return model_rules.Rule(
        "!has(self.devices) || "
        "[self.devices.filter(device, has(device.vfGroups)).map(device, device.vfGroups)].all(grouped, "
        "[self.devices.map(device, device.?labels.orValue({}))].all(labels, "
        f"{' && '.join(f'{total} <= {most}' for total, most in bounds.items())}))",
        f"all devices together have at most {schema_limits.TOTAL_FUNCTIONS} virtual functions, "
        f"{schema_limits.TOTAL_LABELS} labels with {schema_limits.TOTAL_LABEL_TEXT} characters, and "
        f"{schema_limits.TOTAL_FUNCTION_LABELS} labels of virtual functions, counted for each of them",
    )


OF_SPEC: Final = (
    _rule(
        f"1 + {_size('device.?mig', 'instances')}",
        schema_limits.TOTAL_UUIDS,
        "uuids, those of MIG instances included",
        most_of_one=1 + schema_limits.MOST_INSTANCES,
    ),
    _rule(
        _size("device", "links"),
        schema_limits.TOTAL_LINKS,
        "links",
        most_of_one=schema_limits.MOST_ENTRIES,
    ),
    _labels_and_functions(),
)
OF_STATUS: Final = (
    _rule(
        _size("device", "occupants"),
        schema_limits.TOTAL_OCCUPANTS,
        "occupants",
        most_of_one=schema_limits.MOST_OCCUPANTS,
    ),
    model_rules.Rule(model_rules.all_different("devices", "uuid"), "all verdicts must be of different uuids"),
)


# ---------------------------------------------------------------- the status


class Occupant(model_rules.Model):
    """A process on a card that nobody gave it."""

    pid: Annotated[int, model_rules.integer(1, 2**31 - 1)]
    """Process id on the node."""

    memory: model_rules.Bytes | None = None
    """Memory of the card that it uses, in bytes. Absent: unknown."""

    namespace: Annotated[str, model_rules.text(schema_limits.DNS_LABEL.longest)] | None = None
    """Namespace of the pod that the process belongs to. Absent: it belongs to none that is known."""

    pod: Annotated[str, model_rules.text(schema_limits.DNS_SUBDOMAIN.longest)] | None = None
    """Name of the pod that the process belongs to. Absent: it belongs to none that is known."""

    command: Annotated[str, model_rules.text(schema_limits.LONGEST_COMMAND)] | None = None
    """Name of the program that the process runs, such as "python3". Absent: unknown."""

    small: bool | None = None
    """Whether the process uses so little of the card that new pods get the card all the same. Absent:
    it does not, and no new pod gets the card until the process is gone."""


class CardStatus(model_rules.Model):
    """The agent's verdict on one card."""

    uuid: model_rules.Uuid
    """Which card, by the uuid it has in spec.devices."""

    health: vocabulary.Health
    """Healthy, Unhealthy, or Unknown. A card that is not Healthy gets no new pod. Always written."""

    reason: model_rules.Reason | None = None
    """One CamelCase word on why, such as "XidCritical". Absent: nothing is wrong."""

    xid: model_rules.Xid | None = None
    """Number of the NVIDIA error (XID) that led to the verdict. Absent: none did."""

    message: model_rules.Sentence = ""
    """A sentence for people on what was seen."""

    since: model_rules.Moment | None = None
    """When the card came to have this health. Absent: unknown."""

    recovery: vocabulary.Recovery | None = None
    """What it takes to bring the card back: none (it recovers by itself), reset, reboot, drain,
    replace. Absent: unknown, or nothing is wrong."""

    occupants: Annotated[
        tuple[Occupant, ...], model_rules.atomic_list(at_most=schema_limits.MOST_OCCUPANTS)
    ] = ()
    """Processes on the card that nobody gave it, the first of them; the memory they use is not free.
    Unless all of them are small, no new pod gets the card. Absent or empty: none."""


class StatusSummary(model_rules.Model):
    """The cards of type gpu, counted by the operator: a little late, for people, never for decisions."""

    free: Annotated[int, model_rules.integer(0, schema_limits.MOST_DEVICES)]
    """Cards of which no pod holds anything and which may get one. Always written."""

    used: Annotated[int, model_rules.integer(0, schema_limits.MOST_DEVICES)]
    """Cards of which a pod holds something. Always written."""

    healthy: Annotated[int, model_rules.integer(0, schema_limits.MOST_DEVICES)]
    """Cards whose health is Healthy. Always written."""

    in_use: Annotated[str, model_rules.text(16, r"^([0-9]+([.][0-9])?)?$", least=0)] = ""
    """How many cards pods hold, parts added up, such as "1.4" where one pod holds a whole card and
    another 40 % of a second. Absent or empty: not counted yet."""

    reason: model_rules.Sentence = ""
    """Why cards of this node get no new pods, such as "1 card unhealthy". Absent or empty: all may."""


class Origin(model_rules.Model):
    """Another node to which a uuid belonged or belongs."""

    uuid: model_rules.Uuid
    """Of a GPU or a MIG instance."""

    node: model_rules.NodeName
    """To which node it belongs before this one. It is this node itself where it withdrew the uuid, or
    waits for pods elsewhere to end that hold it."""

    since: model_rules.Moment | None = None
    """When that node withdrew it; for a day from then it gets it back by publishing it again. Absent:
    it still claims it."""


class DeviceStatus(model_rules.Model):
    """How the cards fare: verdicts and sources from the agent, liveness and counts from the operator."""

    model_config = pydantic.ConfigDict(json_schema_extra=model_rules.validations(*OF_STATUS))

    devices: Annotated[tuple[CardStatus, ...], model_rules.atomic_list(at_most=128)] = ()
    """The agent's verdict on each card. A card without an entry is plainly healthy."""

    conditions: model_rules.Conditions = ()
    """Ready (the operator's: is the agent of this node alive), NVMLReady and PodResourcesReady (the
    agent's: does the source answer), EnvReady, NRIReady, CDIReady and DevicePluginReady (the agent's: is this
    way of delivery to containers alive). While Ready or NVMLReady is not True the node gets no new pods, and
    a pod that no way serves is not bound there. A source or a way that is not configured has no condition."""

    summary: StatusSummary | None = None
    """The operator's count of the cards. Absent: not counted yet."""

    claims: Annotated[
        tuple[model_rules.Uuid, ...], model_rules.atomic_list(at_most=schema_limits.MOST_RECORDED)
    ] = ()
    """Uuids of GPUs and MIG instances that the operator has recorded as this node's own. Should
    another node publish one of them later, that node does not give it out. Absent or empty: none."""

    disputed: Annotated[
        tuple[model_rules.Uuid, ...], model_rules.atomic_list(at_most=schema_limits.MOST_RECORDED)
    ] = ()
    """Uuids of GPUs and MIG instances that this node publishes and the operator does not give out
    here, because another node had them first or nobody knows who had. Absent or empty: none."""

    origins: Annotated[tuple[Origin, ...], model_rules.atomic_list(at_most=schema_limits.MOST_RECORDED)] = ()
    """From which nodes uuids came, written by the operator for its successor. A uuid that is in claims,
    too, belongs to this node until the other is back. Absent or empty: all were here first."""
