"""PlacementPolicy: the rules of placement that people set. Source of its CRD.

Only the policy named `default` is in force. It is read live: a good change holds from
the next decision on, a bad one is refused here by the schema or reported in the
condition Accepted, while the last good one stays in force.

Defaults are part of the schema, so that `kubectl get` shows every rule that holds, also
those that nobody wrote. The words that a field may have are enums in `vocabulary`; what they
mean to the scheduler is read in `translate.policies` of the operator.
"""

from typing import Annotated

import pydantic

from berth_crds import model_rules, names, schema_limits, vocabulary

Weight = Annotated[int, model_rules.integer(0, 100)]
Xids = Annotated[tuple[model_rules.Xid, ...], model_rules.set_list()]


class Weights(model_rules.Model):
    """How much each point counts when nodes and cards are ranked; only the proportion matters.

    All but core and memory count for the strategy weighted alone. Those of load are what was measured,
    by the agent or as load.source says; while nothing is measured, or nothing new for long, a card is as
    loaded as is promised of its core, and as full as is promised of its memory.
    """

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                # Guarded although both have defaults: the server judges the default `{}` itself first.
                "!has(self.core) || !has(self.memory) || self.core + self.memory > 0",
                "core or memory must have a weight above 0",
            )
        )
    )

    core: Weight = 1
    """Weight of compute, from 0 (does not count) to 100."""

    memory: Weight = 1
    """Weight of the cards' memory, from 0 (does not count) to 100."""

    cards: Weight = 0
    """Weight of the number of cards that a node has for the pod, used or not, from 0 to 100."""

    card_memory: Weight = 0
    """Weight of the size of the cards, the mean of those that a node has for the pod, from 0 to 100."""

    utilization: Weight = 0
    """Weight of the time in which nothing runs on a card, as measured, from 0 to 100. With 100, and 1 for
    core and memory, a card that is busy is taken last."""

    encoder: Weight = 0
    """Weight of the time in which a card's video encoder is idle, as measured, from 0 to 100."""

    decoder: Weight = 0
    """Weight of the time in which a card's video decoder is idle, as measured, from 0 to 100."""

    power: Weight = 0
    """Weight of how far a card is below its limit of power, as measured, from 0 to 100."""

    free_memory: Weight = 0
    """Weight of the memory of a card that is free as measured, and not promised, from 0 to 100."""


class Preferences(model_rules.Model):
    """How much the strategy and what pods prefer count when one of the nodes that fit is chosen.

    As in kube-scheduler, whose weights these are, each gives a node 0 to 100 points, which count times the
    weight, and the node with the largest sum is taken. A preference never keeps a pod waiting.
    """

    strategy: Weight = 100
    """Weight of the strategy for pods that ask for cards or other devices, from 0 (it does not count) to 100.
    With 100 and a preference of 2, a node that has all of what is preferred comes before one without it that
    has up to 2 points more of the strategy's 100."""

    strategy_without_devices: Weight = 1
    """The same for pods that ask for no device, from 0 to 100: for them what is preferred counts first."""

    node_affinity: Weight = 2
    """Weight of a pod's preferred node affinity, from 0 to 100. The node that meets most of its terms, by
    their weights, has 100 points."""

    taints: Weight = 3
    """Weight of taints with the effect PreferNoSchedule, from 0 to 100. A node has the fewer points, the more
    of them the pod does not tolerate."""

    pod_affinity: Weight = 2
    """Weight of a pod's preferred pod affinity and anti-affinity, from 0 to 100. The node has 100 points that
    has most of the pods nearby that are preferred, and fewest of the others, by the weights of the terms."""

    spread: Weight = 2
    """Weight of a pod's topology spread constraints with ScheduleAnyway, and of the spread of pods that have
    none, from 0 to 100. A node has the more points, the fewer pods that are counted are in its domains."""

    images: Weight = 1
    """Weight of the pod's images that a node has already, from 0 to 100, times unstated. They count by their
    size and by how many nodes have them."""

    balance: Weight = 1
    """Weight of cpu and memory being used in like parts, from 0 to 100, times unstated; for pods that ask for
    no device. With unstated 0 it counts only where the pod or a node states a preference as well."""

    unstated: Weight = 0
    """What the weights of images and balance, which nobody states, are multiplied with, from 0 to 100. With 0
    they decide only between nodes that are equally good by all else; by the strategy fragmentation these
    are the nodes that are equally good for cards."""


class Agents(model_rules.Model):
    """After how long without a sign of life from its agent a node gets no new pod, and what follows then."""

    grace_seconds: Annotated[int, model_rules.integer(1, 86400)] = 40
    """Seconds without a sign of life from a node's agent after which its cards get no new pod.
    Agents report every 10 seconds by default; give them at least three chances."""

    unknown_seconds: Annotated[int, model_rules.integer(0, 86400)] = 20
    """Seconds more until the agent counts as silent, which is written into the Device. An agent that reports
    again before that costs no write. Where more than half of all agents, and at least three, fall silent
    together, Berth suspects itself and writes nothing. So however short this is, an agent is not reported
    while so many others have given no sign since it fell silent that all may be most together: mostly for
    the 10 seconds between two reports, and for graceSeconds at most."""

    load_seconds: Annotated[int, model_rules.integer(1, 86400)] = 30
    """Seconds for which the load that an agent measured of its cards counts after it was reported; then the
    cards are judged by what is promised of them. Give it three of the 10 seconds between two reports. For
    loads from Prometheus load.prometheus.maxAgeSeconds holds instead."""

    taint: model_rules.Flag = False
    """Whether the Node of a silent agent gets the taint berth.dev/agent-silent:NoSchedule, which keeps off
    the pods of other schedulers, too. It is taken away when the agent reports again, when this is false, and
    when the node has no Device any more. Where most agents are silent together, none gets it."""

    evict_after_seconds: Annotated[int, model_rules.integer(0, 604800)] | None = None
    """Seconds after which the pods that hold devices of a silent agent's node are evicted, counted from when
    it counts as silent. PodDisruptionBudgets hold. None is evicted where that would concern more than a
    fifth of the nodes with devices, or while most agents, and at least three, are silent together. A cluster
    of one or two such nodes has no such safeguard. Absent: never."""


class PrometheusSource(model_rules.Model):
    """Where Prometheus is, and what it knows of the cards."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "!has(self.url) || self.url.matches('^https?://[^/?#@]+(/[^?#@]*)?$')",
                "url must begin with http:// or https:// and have neither credentials nor a query",
            ),
            model_rules.Rule(
                "!has(self.intervalSeconds) || !has(self.maxAgeSeconds) || "
                "self.intervalSeconds < self.maxAgeSeconds",
                "intervalSeconds must be less than maxAgeSeconds: no load would count between two queries",
            ),
        )
    )

    url: Annotated[str, model_rules.text(schema_limits.LONGEST_URL)] | None = None
    """The address of Prometheus, such as https://prometheus.example.com or
    http://prometheus-server.monitoring.svc/prefix; what serves the same API does as well. Credentials do not
    belong here: see the operator's flags --prometheus-token-file and --prometheus-ca-file. Absent: the
    Service is looked for."""

    namespace: Annotated[str, model_rules.formatted(schema_limits.DNS_LABEL)] = "monitoring"
    """The namespace in which the Service of Prometheus is looked for, where url is absent. Whoever may write
    Services there decides who is asked, and is shown the token if there is one. The operator needs the right
    to list them there."""

    service_selector: Annotated[str, model_rules.text(schema_limits.LONGEST_SELECTOR)] = (
        "app.kubernetes.io/name=prometheus"
    )
    """The labels of that Service, as `kubectl get services -l` takes them. Exactly one Service must have
    them; its port is the only one, or the one that is called web, http-web, http or https."""

    metrics: vocabulary.MetricNames = vocabulary.MetricNames.DCGM
    """By which names the cards' figures are there. dcgm: those of NVIDIA's exporter, such as
    DCGM_FI_DEV_GPU_UTIL, which Berth's agent has with --dcgm-names. berth: those of Berth's agent without it,
    such as berth_dev_gpu_util. The label UUID says of which card a figure is."""

    interval_seconds: Annotated[int, model_rules.integer(5, 3600)] = 15
    """Seconds between two looks at Prometheus, each of which is one query for each metric."""

    max_age_seconds: Annotated[int, model_rules.integer(6, 86400)] = 60
    """Seconds for which a figure counts after it was measured; then the cards are judged by what is promised
    of them. Give it three times as long as Prometheus takes between two scrapes."""


class LoadRules(model_rules.Model):
    """Who says how loaded the cards are. Sources are never mixed."""

    source: vocabulary.LoadSource = vocabulary.LoadSource.AGENTS
    """agents: the agent of each node, with its Lease. prometheus: Prometheus, which the operator asks."""

    prometheus: PrometheusSource | None = None
    """Where Prometheus is, and what it knows of the cards. It counts where source is prometheus; absent, all
    of it is as by default."""


class Priorities(model_rules.Model):
    """What decides which pod comes first, beside PriorityClasses."""

    label_at_most: Annotated[int, model_rules.integer(0, 10**9)] = 0
    """Up to which number the label genius/priority of a pod counts between namespaces. Absent or
    0: there it gives no pod a better place, for anybody may write it, and only a PriorityClass does.
    Within a namespace the label always orders the pods to which no PriorityClass gives a priority."""


class HealthRules(model_rules.Model):
    """Which errors condemn a card beyond Berth's own table of errors, and how it comes back."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "!has(self.criticalXids) || !has(self.ignoredXids) || "
                "!self.criticalXids.exists(xid, xid in self.ignoredXids)",
                "an XID cannot stand in both criticalXids and ignoredXids",
            )
        )
    )

    ignored_xids: Xids = ()
    """NVIDIA error numbers (XIDs) that never make a card unhealthy, whatever Berth's own table
    says. Absent or empty: the table decides."""

    critical_xids: Xids = ()
    """NVIDIA error numbers (XIDs) that always make a card unhealthy, whatever Berth's own table
    says. Absent or empty: the table decides."""

    cool_down_seconds: Annotated[int, model_rules.integer(0, 86400)] = 300
    """Seconds that must pass after the last error before a card may count as healthy again."""

    clean_probes: Annotated[int, model_rules.integer(1, 1000)] = 3
    """How many probes in a row must find nothing before a card counts as healthy again."""

    on_sick: vocabulary.OnSick = vocabulary.OnSick.LEAVE
    """What becomes of the pods that hold a card which falls sick. leave: they stay. evict: they are evicted
    where the card needs a reset, a drain, a reboot or to be replaced; a program's own error, and what
    passes by itself, evicts none. Budgets and limits are those of agents.evictAfterSeconds."""


class SharingRules(model_rules.Model):
    """What may be shared by several pods."""

    fractions: model_rules.Flag = True
    """Whether pods may ask for a part of a card (berth.dev/gpu below 100, berth.dev/gpu-memory and
    so on). False: such pods are refused with this reason; those that run are left alone."""

    replicas: model_rules.Flag = True
    """Whether cards that their node shares by time-slicing or MPS are given to several pods. False:
    such a card is given to one pod at a time."""

    min_memory: Annotated[int, model_rules.integer(0, 65536)] = pydantic.Field(
        default=64, alias="minMemoryMiB"
    )
    """The least amount of a card's memory, in MiB, that a pod may ask for (berth.dev/gpu-memory and so
    on, of each card) or make a condition (berth.dev/memory-at-least). A pod that asks for less has most
    likely left out the unit: it is refused with the unit that it may have meant; those that run are left
    alone. 0: any amount will do."""


class Oversale(model_rules.Model):
    """How far the compute of a card may be overcommitted, and by which pods."""

    core: Annotated[int, model_rules.integer(100, schema_limits.MOST_CORE)]
    """Up to how many percent of a card's core may be promised in all to the pods that share it, from 100 to
    1000, where the last of them is of a named class. A pod of another class gets a part of a card only if
    all parts together stay within 100 percent."""

    priority_classes: Annotated[
        tuple[Annotated[str, model_rules.formatted(schema_limits.DNS_SUBDOMAIN)], ...],
        model_rules.set_list(schema_limits.MOST_OVERSALE_CLASSES),
        pydantic.Field(min_length=1),
    ]
    """The PriorityClasses (spec.priorityClassName) whose pods may share a card beyond 100 percent of its
    core."""


class PolicySpec(model_rules.Model):
    """The rules. Everything is optional; what is left out has the default shown."""

    strategy: vocabulary.Strategy = vocabulary.Strategy.FRAGMENTATION
    """How nodes are ranked when several fit: fragmentation loses least of what later pods could use,
    weighted prefers large nodes with much free, binpack fills the fullest first and keeps whole nodes
    free, spread takes the emptiest first. NICs and other devices count for pods that ask for them, after
    the cards. A pod may choose otherwise by the annotation berth.dev/strategy."""

    weights: Weights = Weights()
    """How much each resource counts when nodes and cards are ranked."""

    preferences: Preferences = Preferences()
    """How much the strategy counts, and how much what pods prefer."""

    agents: Agents = Agents()
    """When the agent of a node counts as silent."""

    load: LoadRules = LoadRules()
    """Who says how loaded the cards are."""

    priorities: Priorities = Priorities()
    """What decides which pod comes first, beside PriorityClasses."""

    health: HealthRules = HealthRules()
    """Which errors condemn a card, and how it comes back."""

    models: Annotated[
        dict[str, Annotated[str, model_rules.text(schema_limits.LONGEST_MODEL)]],
        pydantic.Field(max_length=256),
    ] = pydantic.Field(default_factory=dict)
    """Other names for models of cards, from the name that pods ask for to the name that drivers
    report, such as {"a100": "NVIDIA A100-SXM4-80GB"}. Case and outer spaces are ignored. A pattern for
    models, as in the label genius/gpu-model, means such a model if its whole text is one of the names."""

    sharing: SharingRules = SharingRules()
    """What may be shared by several pods."""

    oversale: Oversale | None = None
    """How far the core of a card may be overcommitted by pods of named PriorityClasses that ask for a part
    of it, never by others. Memory, whole cards, MIG instances and replicas are never overcommitted. Pods that
    run keep what they hold when this changes. Absent: no core is promised twice."""

    delivery: vocabulary.Delivery = vocabulary.Delivery.REPORTED
    """Which nodes can hand a pod's cards to its containers; a pod that would start without its cards is
    not bound there. reported: those whose agent reports a way of delivery that serves the pod, and those
    whose agent reports none, alive or not. environment: all nodes, for pods into which the admission policy
    has put the variables. unchecked: all nodes, for all pods."""

    node_names: vocabulary.NodeNames = vocabulary.NodeNames.BERTH
    """By which names nodes list in their status what their devices can give, so that the kubelet and other
    schedulers can reckon with it. none: by no name. berth: berth.dev/gpu, berth.dev/gpu-memory and so on.
    koordinator: besides, Koordinator's, koordinator.sh/gpu and kubernetes.io/gpu and so on."""

    pod_records: vocabulary.PodRecords = vocabulary.PodRecords.BERTH
    """In whose annotations a pod's devices are recorded when it is bound. berth: in Berth's. koordinator:
    besides, in scheduling.koordinator.sh/device-allocated, for a cluster whose nodes still run Koordinator's
    agent or other programs that read it. It has GPUs, RDMA devices and FPGAs, and no MIG instances."""

    pod_records_from: Annotated[
        tuple[Annotated[str, model_rules.formatted(schema_limits.SCHEDULER)], ...],
        model_rules.set_list(schema_limits.MOST_SCHEDULERS),
    ] = (names.KOORDINATOR_SCHEDULER,)
    """The schedulers, as spec.schedulerName of pods has them, whose records of a pod's devices are believed,
    in scheduling.koordinator.sh/device-allocated of pods that Berth did not bind. The cards, NICs and FPGAs
    that such a record names are given to nobody else, if they are there and no more than the pod asks for
    by resources. Who may edit a pod may edit its record: name only schedulers that write it. A record of
    any other scheduler frees nothing: as many cards as the pod asks for are kept back, and all NICs of its
    node if it asks for one. Empty: no record is believed."""

    on_cordon: vocabulary.OnCordon = vocabulary.OnCordon.STOP
    """What becomes of the pods that hold a device which spec.cordon of its Device names. stop: they stay, and
    no new pod gets it. drain: they are evicted, too; PodDisruptionBudgets hold."""


class PolicyStatus(model_rules.Model):
    """Whether the policy is in force. The operator writes it."""

    observed_generation: Annotated[int, model_rules.integer(0, 2**63 - 1)] = 0
    """The metadata.generation that the operator has judged; a lower one means that the last change
    is still to be read."""

    conditions: model_rules.Conditions = ()
    """Accepted: "True" when these rules are the ones in force; "False" with the reason when they
    are not, and then the last good ones stay in force."""


class PlacementPolicy(model_rules.Object):
    """The rules of placement.

    The one named `default` is in force; others have no effect. It is read live: a change holds from the
    next decision on.
    """

    spec: PolicySpec = PolicySpec()
    """The rules. Everything is optional; what is left out has the default shown."""

    status: PolicyStatus = pydantic.Field(default_factory=PolicyStatus)
    """Whether the policy is in force. The operator writes it."""
