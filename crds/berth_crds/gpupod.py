"""GpuPod: which cards one pod was given, and which it really holds. Source of its CRD.

The allocation stands on the pod itself, written once by the Binding. The agent of the
pod's node copies it here, beside what the kubelet and the driver say, so that people and
programs can see at a glance whether the two agree. A pod that has cards without an
allocation that can be read gets a GpuPod, too: it names what the kubelet gave. A GpuPod is
owned by its pod, by uid: a pod that is deleted and made again is a new record.

The docstrings are the manual: `kubectl explain gpupod.spec` prints them.
"""

from typing import Annotated

import pydantic

from berth_crds import model_rules, schema_limits, vocabulary

ContainerName = Annotated[str, model_rules.formatted(schema_limits.DNS_LABEL)]


class HeldCard(model_rules.Model):
    """What one container was given of one device."""

    uuid: model_rules.Uuid
    """Identity of the device; of the MIG instance where a profile is given."""

    minor: model_rules.Minor
    """Number of the device file: N in /dev/nvidiaN. For people; always written, also when it is 0."""

    type: model_rules.DeviceType
    """What kind of device it is: gpu, rdma, fpga, or the word of a plug-in."""

    core: Annotated[int, model_rules.integer(0, 100)]
    """Share of the device's compute in percent: 100 is the whole device. Always written."""

    memory: model_rules.Bytes
    """Memory of the device that was given, in bytes. Always written; 0 for devices without memory."""

    model: Annotated[str, model_rules.text(schema_limits.LONGEST_MODEL)] | None = None
    """Product name as the driver reports it. Absent: unknown."""

    profile: model_rules.MigProfile | None = None
    """MIG profile, such as "1g.10gb". Absent: not a MIG instance."""

    vf: model_rules.BusId | None = None
    """PCI address of the virtual function that was given. Absent: the device itself was."""

    limit: Annotated[int, model_rules.integer(1, schema_limits.MOST_CORE)] | None = None
    """Up to how many percent the core of the card might be promised in all when this part was given. Absent:
    up to 100, or the card was given whole."""


class HoldingContainer(model_rules.Model):
    """A container and what it was given."""

    name: ContainerName
    """Name of the container in its pod."""

    devices: Annotated[tuple[HeldCard, ...], model_rules.atomic_list()] = ()
    """What it was given, in the order in which the container sees it."""


class GpuPodSpec(model_rules.Model):
    """What the pod was given, by its allocation or else by the kubelet. The agent of its node writes it."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "!has(self.containers) || self.containers.map(container, "
                "has(container.devices) ? container.devices.size() : 0).sum() "
                f"<= {schema_limits.TOTAL_POD_DEVICES}",
                f"all containers together have {schema_limits.TOTAL_POD_DEVICES} devices at most",
            )
        )
    )

    node: Annotated[
        model_rules.NodeName,
        pydantic.Field(
            json_schema_extra=model_rules.validations(
                model_rules.Rule(
                    "self == oldSelf", "spec.node cannot change: a pod never moves to another node"
                )
            )
        ),
    ]
    """Name of the node that the pod is bound to."""

    pod_uid: Annotated[
        str,
        model_rules.text(64),
        pydantic.Field(
            alias="podUID",
            json_schema_extra=model_rules.validations(
                model_rules.Rule(
                    "self == oldSelf", "spec.podUID cannot change: a pod made again is a new record"
                )
            ),
        ),
    ]
    """Uid of the pod, which tells it from an earlier pod of the same name."""

    containers: Annotated[tuple[HoldingContainer, ...], model_rules.map_list("name")] = ()
    """The containers that were given something. Absent or empty: nothing is known to be given, and yet
    the pod is seen on a card; or it asks for cards, runs, and was given none by the kubelet."""


class Grant(model_rules.Model):
    """What one container is seen to hold, by one source."""

    container: ContainerName
    """Name of the container in its pod."""

    uuids: Annotated[tuple[model_rules.Uuid, ...], model_rules.atomic_list(schema_limits.MOST_GRANTED)]
    """Uuids of the devices that it holds. Empty: the source says that it holds none. Always written."""

    source: vocabulary.GrantSource
    """Who says so: podresources (the kubelet), nvml (the driver), or simulated."""


class GpuPodStatus(model_rules.Model):
    """What the pod really holds, and whether that is what it was given. The agent writes it."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "!has(self.granted) || self.granted.map(grant, grant.uuids.size()).sum() "
                f"<= {schema_limits.TOTAL_POD_GRANTED}",
                f"all sources together name {schema_limits.TOTAL_POD_GRANTED} devices at most",
            )
        )
    )

    phase: vocabulary.PodPhase | None = None
    """Phase of the pod, copied so that it stands beside its cards. Absent: not seen yet."""

    minors: Annotated[str, model_rules.text(512, r"^([0-9]+(,[0-9]+)*)?$", least=0)] = ""
    """Minors of the GPUs that the pod was given, sorted, such as "0,1". Absent or empty: it has
    none."""

    share: Annotated[str, model_rules.text(schema_limits.LONGEST_SHARE, least=0)] = ""
    """How much of each of these GPUs it was given, in the order of the minors, such as "40 %", "8Gi"
    or "1g.10gb". Absent or empty: all of each."""

    granted: Annotated[
        tuple[Grant, ...], model_rules.map_list("container", "source", at_most=schema_limits.MOST_GRANTS)
    ] = ()
    """What each source says that each container holds. A source that says nothing of a container is
    not listed with it. Absent or empty: no source says anything."""

    conditions: model_rules.Conditions = ()
    """Verified: "True" when what is held is what was given; "False" with reason Mismatch and both
    lists in the message; "Unknown" while no source can say."""


class GpuPod(model_rules.Object):
    """Which cards one pod was given, and which it really holds.

    It has the name and namespace of its pod and goes when the pod goes. Where another node's record has
    that name and nothing else tells the pod's cards, its name is the pod's uid, a dot, and the node. The
    agent of the pod's node writes it; people read it, and so does the operator where the allocation on the
    pod cannot be read.
    The operator removes one whose uid or node is not that of its pod.
    """

    spec: GpuPodSpec
    """What the pod was given, by its allocation or else by the kubelet. The agent of its node writes it."""

    status: GpuPodStatus = pydantic.Field(default_factory=GpuPodStatus)
    """What the pod really holds, and whether that is what it was given. The agent writes it."""
