"""The state that decisions are made on: nodes, their resources, their devices, what pods hold.

Numbers are kept in the node table, so that filtering thousands of nodes is a few
vector operations; the rest is kept in a NodeInfo for each node. Only the ledger changes
it, and never while a decision reads it. Which nodes have a row is told in `node_rows`; what
pods hold on an absent node counts once its Node or its Device is known.
"""

from collections.abc import Callable, Collection, Iterable

from berth_operator.scheduling import (
    card_masks,
    cluster_supply,
    device_counts,
    exclusive_use,
    namespace_quarantines,
    node_info,
    node_rows,
    node_selection_reasons,
    node_table,
    pod_index,
    preference_index,
    resource_counts,
    uuid_ownership,
    uuid_records,
    withheld_cards,
    workload,
    workload_model,
)
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts, labels
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.volumes import index


class Inventory:
    """Nodes, devices, holds, and what is known of the workload."""

    def __init__(
        self,
        clock: Callable[[], float] = float,
        day: Callable[[], float] = float,
        *,
        exclusive_replicas: bool = False,
    ) -> None:
        """Begin with nothing; `day` tells the time of day, and by default no time passes.

        `exclusive_replicas` has a time-sliced or MPS card given to one pod at a time.
        """
        self.exclusive_replicas = exclusive_replicas
        self.table = node_table.NodeTable()
        self.workload = workload.Workload()
        self.uuid_ownership = uuid_ownership.UuidOwnership(day, self._names_held, self._node_exists)
        self._rows = node_rows.NodeRows()
        self.infos, self.index = self._rows.infos, self._rows.index
        self._affected: set[str] = set()  # Nodes whose claims a hold of cards that are not there has changed.
        self._cards_before: dict[str, node_info.Cards] = {}  # What nodes could give whose cards have changed.
        self.score_epoch = 0  # Rises whenever all remembered scores become void.
        self._scale: cluster_supply.Scale | None = None
        self._cluster_supply = cluster_supply.ClusterSupply(clock)
        self._model = (-1, -1), workload_model.WorkloadModel()
        self._model_pace = cluster_supply.OnceASecond(clock)  # Each change of the model voids all scores.
        self._node_selection = node_selection_reasons.NodeSelectionCache()
        self._card_masks = card_masks.CardMasks()
        self._holders: dict[str, node_info.NodeInfo] = {}  # On which node a pod holds something.
        self.ports = exclusive_use.ExclusiveUse[facts.HostPort]()
        self.disks = exclusive_use.ExclusiveUse[facts.Disk]()
        self.pods = pod_index.PodIndex(self.index, self._placed_holds, self.node_labels)
        self.volumes = index.Volumes()
        self.quarantines = namespace_quarantines.NamespaceQuarantines()
        self.preference_index = preference_index.PreferenceIndex()

    def __repr__(self) -> str:
        return f"<Inventory: {len(self.index)} nodes, {len(self._holders)} holds>"

    @property
    def size(self) -> int:
        """Rows in use, vacant ones between them included."""
        return len(self.infos)

    @property
    def all_rows(self) -> slice:
        """All rows in use."""
        return slice(0, len(self.infos))

    def node(self, name: str) -> node_info.NodeInfo | None:
        """Return a node by its name; also one that only pods name."""
        return self._rows.named(name)

    def each(self) -> Iterable[node_info.NodeInfo]:
        """Return all nodes, by name; also those that only pods name."""
        return self._rows.each()

    def hold(self, uid: str) -> Hold | None:
        """Return a pod's hold."""
        info = self._holders.get(uid)
        return info.holds[uid] if info is not None else None

    def _placed_holds(self) -> Iterable[Hold]:
        return (hold for info in self._rows.present() for hold in info.holds.values())

    def name_positions(self) -> node_table.Numbers:
        """Return for each row its position in the order of names: the last tie-breaker."""
        return self._rows.positions()

    def at_position(self, position: int) -> node_info.NodeInfo:
        """Return the node at a position in the order of names."""
        return self._rows.at_position(position)

    def most_cards_and_memory_of_a_node(self) -> cluster_supply.Scale:
        """Return the most cards and the most bytes that any node has; the others are compared with it."""
        return self._cluster_supply.seen()[1]

    @property
    def supply_version(self) -> int:
        """A number that rises whenever what the nodes have counts anew."""
        return self._cluster_supply.version

    def refresh_supply(self) -> None:
        """Refresh what all nodes have together, on which scores depend: between rounds, never within one."""
        self._cluster_supply.refresh()

    def workload_model(self) -> workload_model.WorkloadModel:
        """Return what to expect of the next pods, learned from those known lately and what the nodes have."""
        version = self.workload.version, self._cluster_supply.version
        if (known := self._model[0]) != version and (known[1] != version[1] or self._model_pace.allows()):
            supply, scale = self._cluster_supply.seen()
            self._model = version, workload_model.learn(self.workload, supply)
            self.score_epoch += self._scale not in (None, scale)
            self._scale = scale
        return self._model[1]

    def node_selection_reasons(
        self, node_selection: facts.NodeSelection
    ) -> node_selection_reasons.NodeSelectionReasons:
        """Return which nodes a pod's selector, affinity and tolerations accept; kept until a node changes."""
        return self._node_selection.get(self.infos, node_selection)

    def accepts(self, row: int, node_selection: facts.NodeSelection) -> bool | None:
        """Return whether a node accepts a pod by its node selection; None if that is not remembered."""
        return self._node_selection.accepts(self.infos, row, node_selection)

    def node_labels(self) -> labels.Labels:
        """Return the labels of all nodes."""
        return self._node_selection.node_labels(self.infos)

    def untainted(self, tolerations: tuple[facts.Toleration, ...]) -> node_table.Mask:
        """Return which nodes have no taint that keeps a pod with these tolerations away."""
        return self._node_selection.untainted(self.infos, tolerations)

    def nodes_matching(self, terms: tuple[facts.Term, ...]) -> node_table.Mask:
        """Return which nodes one of these terms selects, by row; kept until a node changes."""
        return self._node_selection.matching(self.infos, terms)

    def named(self, uuids: frozenset[str]) -> node_table.Mask:
        """Return which cards have one of these uuids, by row and slot; kept until a Device changes."""
        return self._card_masks.named(uuids, self.infos, self.table)

    def labelled(self, selectors: tuple[requests.LabelSelector, ...]) -> node_table.Mask:
        """Return which cards all selectors select, by row and slot; kept until a Device changes."""
        return self._card_masks.labelled(selectors, self.infos, self.table)

    def put_node(self, node: facts.Node) -> None:
        """Apply a node's new state."""
        info = self._present(node.name)
        resource_counts.set_allocatable(self.table, info, node.allocatable)
        self.table.has_node[info.row] = True
        if info.node is None or node_selection_reasons.changed(info.node, node):
            self._node_selection.node_changed(info.row, node)
        honored, info.node = info.honors_partitions, node
        device_counts.recount_partitions(self.table, info, honored=honored)
        self._update_supply(info)
        self.table.touch(info.row)

    def drop_node(self, name: str) -> facts.Node | None:
        """Forget a node, and return what it was; its Device and holds stay as long as they exist."""
        if (info := self.node(name)) is None or not info.present:
            return None
        honored, node, info.node = info.honors_partitions, info.node, None
        device_counts.recount_partitions(self.table, info, honored=honored)
        self.table.has_node[info.row] = False
        resource_counts.set_allocatable(self.table, info, ())
        self.table.touch(info.row)
        self._node_selection.node_changed(info.row, None)
        self._update_supply(info)
        self._vacate_if_absent(info)
        return node

    def put_device(
        self, device: device_facts.Device, record: uuid_records.Record = uuid_records.NOTHING
    ) -> set[str]:
        """Apply what an agent published and what is recorded of its uuids; return the affected nodes."""
        info = self._present(device.node)
        info.published = device
        held = withheld_cards.held(info.holds.values())
        affected = self.uuid_ownership.publish(device, record, held)
        self._update_cards_of({device.node} | self.uuid_ownership.take_decided())
        return affected

    def settle_moved_cards(self) -> set[str]:
        """Let nodes own the cards that have surely moved to them; return the affected nodes."""
        affected = self.uuid_ownership.settle_moved()
        self._update_cards_of(self.uuid_ownership.take_decided())
        return affected

    def _node_exists(self, name: str) -> bool:
        return (info := self.node(name)) is not None and info.node is not None

    def _names_held(self, node: str) -> frozenset[str]:
        """Return the uuids that pods on a node hold now."""
        info = self.node(node)
        return withheld_cards.held(info.holds.values()) if info is not None else frozenset()

    def _update_cards_of(self, names: Iterable[str]) -> None:
        for name in names:
            if (info := self.node(name)) is not None:
                self._update_cards(info)

    def _update_cards(self, info: node_info.NodeInfo) -> None:
        """Work out which cards of a node count, after what it publishes, claims or holds has changed."""
        if info.published is None:
            return
        published, uuids = info.published, self.uuid_ownership
        info.device_before_holds = withheld_cards.after_uuid_claims(published, uuids.lost(info.name))
        there = frozenset(device_facts.unique_uuids(published)) if published.large else uuids.of(info.name)
        device, unnamed = withheld_cards.after_holds(info.device_before_holds, there, info.holds.values())
        if (device, unnamed) != info.cards:
            self._cards_before.setdefault(info.name, info.cards)
            info.device, info.unnamed = device, unnamed
            self._install(info, device)

    def _install(self, info: node_info.NodeInfo, device: device_facts.Device) -> None:
        self._card_masks.device_changed(info.row)
        device_counts.install(self.table, info, device)
        self._update_supply(info)
        device_counts.recount(self.table, info)

    def drop_device(self, node: str) -> set[str]:
        """Forget a node's devices; what pods hold of them is remembered.

        Return the other nodes for which that changes something.
        """
        if (info := self.node(node)) is None or not info.present:
            return set()
        self._cards_before.setdefault(node, info.cards)
        info.published = info.device_before_holds = info.device = None
        # An agent that publishes again must report again.
        info.unnamed, info.agent_not_ready, info.unknown = 0, True, False
        self._card_masks.device_changed(info.row)
        affected = self.uuid_ownership.withdraw(node, withheld_cards.held(info.holds.values()))
        self._update_cards_of(self.uuid_ownership.take_decided())
        device_counts.install(self.table, info, info.view().device)
        self._update_supply(info)
        device_counts.recount(self.table, info)
        self._vacate_if_absent(info)
        return affected

    def set_agent_not_ready(self, node: str, not_ready: bool) -> None:  # noqa: FBT001  the value is the message
        """Record whether a node's agent is silent or unknown."""
        if (info := self.node(node)) is not None and info.agent_not_ready != not_ready:
            info.agent_not_ready = not_ready
            self._recount(info)

    def set_quarantine(self, node: str, why: str, namespace: str = "") -> bool:
        """Record why a node gets no pods, or none of a namespace, for a time; return whether that is news."""
        self.quarantines.set(node, namespace, why)
        quarantines = ("", (namespace, why)) if namespace else (why, ("", ""))
        if (info := self.node(node)) is None or (info.quarantine, info.namespace_quarantine) == quarantines:
            return False
        info.quarantine, info.namespace_quarantine = quarantines
        self._recount(info)
        return True

    def _recount(self, info: node_info.NodeInfo) -> None:
        if info.present:
            self._update_supply(info)
            device_counts.recount(self.table, info)

    def set_policy(self, policy: Policy) -> bool:
        """Count as a policy has it, and return whether something else is left of cards than before."""
        self.workload.call(dict(policy.models))
        if self.exclusive_replicas is not policy.replicas:
            return False
        self.exclusive_replicas = not policy.replicas
        for info in self.each():
            info.exclusive_replicas = self.exclusive_replicas
            if not info.plain:
                device_counts.recount(self.table, info)
        return True

    # ------------------------------------------------------------ changing: holds

    def charge(self, hold: Hold, *, assume_volumes: bool = False) -> None:
        """Charge what a pod holds to its node; while it is being bound, its claims get volumes for that."""
        if hold.uid in self._holders:
            raise ValueError(f"{hold.title} holds something already")
        info = self.node(hold.node) or self._rows.keep_absent(hold.node)
        self._holders[hold.uid], info.holds[hold.uid] = info, hold
        if hold.claims and assume_volumes:
            self.volumes.assume(hold.uid, hold.claims, info.node or facts.Node(info.name))
        self._use(info, hold, 1)
        self._settle(info, (hold,))

    def release(self, uid: str) -> Hold:
        """Release what a pod held."""
        info = self._holders.pop(uid)
        hold = info.holds.pop(uid)
        self._use(info, hold, -1)
        self._settle(info, (hold,))
        if not info.present and not info.holds:
            self._rows.forget_absent(info.name)
        return hold

    def charge_instead(self, info: node_info.NodeInfo, holds: Collection[Hold]) -> None:
        """Charge these, all of one node, in place of what their pods hold: one change, however many."""
        before = [info.holds[hold.uid] for hold in holds]
        for known, hold in zip(before, holds, strict=True):
            self._use(info, known, -1, seen=False)
            self.refresh(hold)
            self._use(info, hold, 1, seen=False)
        self._settle(info, (*before, *holds))

    def refresh(self, hold: Hold) -> bool:
        """Replace what a pod holds by an equal hold, and return whether other pods see another pod in it."""
        info = self._holders[hold.uid]
        before, info.holds[hold.uid] = info.holds[hold.uid], hold
        return info.present and self.pods.replace(before, hold)

    def take_affected(self) -> set[str]:
        """Return the nodes whose claims have changed because pods hold cards that are not there, once."""
        affected, self._affected = self._affected, set()
        return affected

    def take_changed(self) -> dict[str, node_info.Cards]:
        """Return the nodes whose cards count otherwise than before, and what these were, once."""
        changed, self._cards_before = self._cards_before, {}
        return changed

    def _use(self, info: node_info.NodeInfo, hold: Hold, sign: int, *, seen: bool = True) -> None:
        if info.present:
            self._use_row(info.row, hold, sign, seen=seen)
        resource_counts.take(self.table, info, hold, sign)
        if hold.claims:
            self.volumes.use(hold.uid, hold.claims, info.name, sign)
        device_counts.take(info, hold, sign)

    def _settle(self, info: node_info.NodeInfo, changed: Collection[Hold]) -> None:
        """Count what is left of the devices of a node on which these holds have come or gone."""
        uuids, name, there = self.uuid_ownership, info.name, self.uuid_ownership.of(info.name)
        if name in uuids.watched or any(withheld_cards.is_odd(one, there) for one in changed):
            self._affected |= uuids.hold(name, withheld_cards.held(info.holds.values()))
            self._update_cards_of({info.name} | self.uuid_ownership.take_decided())
        if info.present:
            device_counts.refresh(self.table, info, changed)

    def _use_row(self, row: int, hold: Hold, sign: int, *, seen: bool = True) -> None:
        if seen:
            (self.pods.add if sign > 0 else self.pods.remove)(hold)
        if hold.host_ports:
            self.ports.change(row, hold.host_ports, sign)
        if hold.disks:
            self.disks.change(row, hold.disks, sign)

    # ------------------------------------------------------------ rows

    def _present(self, name: str) -> node_info.NodeInfo:
        """Return a node that has a row, from now on if it had none."""
        if (at := self.index.get(name)) is not None:
            return self._rows.at(at)
        info = self._rows.give_row(name)
        info.exclusive_replicas = self.exclusive_replicas
        self.table.reserve_rows(len(self.infos))
        self.table.touch(info.row)
        for hold in info.holds.values():
            self._use_row(info.row, hold, 1)
        if info.holds:
            device_counts.recount(self.table, info)
        self._forget_rows()
        return info

    def _vacate_if_absent(self, info: node_info.NodeInfo) -> None:
        """Vacate the row of a node that has neither a Node nor a Device any more."""
        if info.node is None and info.published is None:
            for hold in info.holds.values():
                self._use_row(info.row, hold, -1)
            self.table.clear(info.row)
            self.table.touch(info.row)
            self._rows.take_row(info)
            self._forget_rows()

    def _forget_rows(self) -> None:
        """Forget what is remembered by row, after a row was given or taken."""
        self.score_epoch += 1
        self._node_selection.forget()
        self._card_masks.forget()

    def _update_supply(self, info: node_info.NodeInfo) -> None:
        self._cluster_supply.update(info.name, cluster_supply.node_supply(info))
        self.preference_index.update(info.row, info.node)
