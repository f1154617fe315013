"""Other projects' hard requirements that Berth does not serve, and what of each is harmless.

A pod that says that it must have one node of NUMA, one rack or a reservation would be bound wherever
there is room, and its author would take it for granted that it got what it must have. So it is
refused. So is one whose resources another name is to stand for: what it asks for is not what is written.
What its project only prefers, and what says that nothing is required, is passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from berth_crds import aliases, names
from berth_crds.aliases import Where

ANYTHING: Final = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A key that requires what Berth does not serve, unless what stands there is harmless.

    Its text is a word, of which the `harmless` ones require nothing; or with `fields` an object in
    JSON, each field of which may have such words, or ANYTHING. `instead` says what to do.
    """

    project: str
    key: str
    instead: str
    harmless: frozenset[str] = frozenset()
    fields: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    where: Where = Where.ANNOTATION


_KOORDINATOR: Final = "scheduling.koordinator.sh/"
_NEAR: Final = (
    f"{names.SCOPE}: numa keeps a pod's cards on one NUMA node, and the kubelet's topology manager its cpus"
)
_CPUS: Final = "which cpus a pod has is left to the kubelet's cpu manager"
_NODES: Final = "choose nodes by a node selector or required node affinity"
_KAI: Final = "kai.scheduler/"

REQUIREMENTS: Final = (
    Requirement(
        aliases.KOORDINATOR,
        f"{_KOORDINATOR}reservation-affinity",
        f"Berth knows no reservations; {_NODES}",
        fields={"preferredDuringSchedulingIgnoredDuringExecution": ANYTHING, "tolerations": ANYTHING},
    ),
    Requirement(
        aliases.KOORDINATOR,
        f"{_KOORDINATOR}numa-topology-spec",
        _NEAR,
        fields={
            "numaTopologyPolicy": frozenset({"BestEffort"}),
            "singleNUMANodeExclusive": frozenset({"Preferred"}),
        },
    ),
    Requirement(
        aliases.KOORDINATOR,
        f"{_KOORDINATOR}resource-spec",
        _CPUS,
        fields={
            "requiredCPUBindPolicy": frozenset({"Default"}),
            "preferredCPUBindPolicy": ANYTHING,
            "preferredCPUExclusivePolicy": ANYTHING,
        },
    ),
    Requirement(
        aliases.KOORDINATOR,
        "koordinator.sh/gpu-isolation-provider",
        f"{_NODES}, those whose agents have --share-isolation hami-core",
        where=Where.LABEL,
    ),
    # Koordinator reads it as a label, too, but the value of a label can hold no colon.
    Requirement(
        aliases.KOORDINATOR,
        "pod.koordinator.sh/replace-resources",
        "write the resources that are meant into the containers",
    ),
    Requirement(
        aliases.VOLCANO_GANGS,
        "volcano.sh/numa-topology-policy",
        _NEAR,
        harmless=frozenset({"none", "best-effort"}),
    ),
    Requirement(
        aliases.VOLCANO_GANGS,
        "volcano.sh/network-topology-mode",
        _NODES,
        harmless=frozenset({"soft"}),
    ),
    Requirement(aliases.VOLCANO_GANGS, "volcano.sh/card.name", f"write {names.MODEL}"),
    Requirement(aliases.KAI, f"{_KAI}topology-required-placement", _NODES),
    Requirement(aliases.KAI, f"{_KAI}node-pool", _NODES, where=Where.LABEL),
)
KEYS: Final = frozenset(one.key for one in REQUIREMENTS)
