"""The search for a placement: which node, and then which of its devices.

All nodes are filtered and scored at once in numpy; then the allocator chooses devices on the best node. The
scores of a signature are remembered, and for the next pod with the same signature only the nodes that changed
since are scored again, however many there are. What a pod requires of other pods depends on all nodes, so it
is asked anew each time, and nodes that refuse for it are hidden from that search (`CachedScores.hiding`). A
row is a node's line in `node_table`, a position its place in the order of names. Scores are kept by position:
of equal ones the first by name wins.

The best node is found by the strategy, which looks at devices, and by preferences, such as for nodes that
have the pod's images. How a pod's devices belong together is its grouping; a scope is how near they must
be: by NVLink, a PCIe switch or a NUMA node.

A device search is the part that tries combinations of the devices of one node (`devices.packing`). Few pods
need one, because for most the filters tell all (`Need.filters_suffice`). It has limits of steps and time
(`Effort`): a node on which it reached them is undecided. An effort is `cut_short` once more was needed than
was left of it: then "no" proves nothing. It is `out_of_time` by the clock alone. For a share of one card the
strategy also names, for each node, the slot of the card to try first: its column in `node_table`. A node's
gpu unit is what nvidia.com/gpu asks for there: whole cards, replicas, MIG instances, or cards that the
kubelet counts (`gpu_units`). So a request may mean something else on some nodes.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import (
    decisions,
    gpu_units,
    node_info,
    node_scores,
    node_table,
    search_memory,
    signatures,
    workload_model,
)
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import NodeReason
from berth_operator.scheduling.devices import allocator, device_view, requests, scopes
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.preferences import choice
from berth_operator.scheduling.preferences import registry as node_preferences
from berth_operator.scheduling.strategies import weighted_points

# Most pods need no device search. For the others its steps are limited (`Effort`; 50 us a step).
STEPS_PER_NODE: Final = 400
NO_POSITIONS: Final = np.zeros(0, dtype=np.int64)


class Search:
    """Finds placements in one inventory, and remembers the scores of nodes."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._cached = search_memory.ScoresBySignature()
        self._to_search_last = search_memory.NodesToSearchLast()

    def place(
        self,
        request: requests.DeviceRequest,
        demand: facts.NodeDemand,
        *,
        policy: Policy,
        effort: Effort | None = None,
        excluded: Collection[str] = (),
        query: Query | None = None,
    ) -> decisions.Placement | None:
        """Return the best node and devices, on a node that is not `excluded`; None if none was found.

        Preferred scopes of the pod's devices are tried first (`scopes.preferred_groupings`), then the request
        as it is, then what it means on nodes of other gpu units. Once `effort` is used up, nodes not yet
        searched are left to the next call. A node that refused is searched again only when it changes. A
        `query` that is passed in keeps the masks that are worked out here, for the caller's next use.
        """
        effort = Effort() if effort is None else effort
        query = query or Query.for_all_nodes(self.inventory, signatures.of(request, demand))
        signature = query.signature
        refused = self._positions_refused_by_inter_pod_filters(query, policy)
        hidden = np.union1d(refused, self._positions(excluded)) if excluded else refused
        # Where the filters suffice there is no search, and a slow node is as good as any.
        slow = () if signature.need.filters_suffice else self._to_search_last.slow()
        to_search_last = self._positions(self.undecided_nodes(signature).union(slow))
        begun: list[Iterator[decisions.Placement | None]] = []
        for one, positions_not_meant in self._signatures_to_try(signature):
            positions_to_hide = (
                np.union1d(hidden, positions_not_meant) if positions_not_meant.size else hidden
            )
            begun.append(self._search_passes(one, policy, effort, refused, positions_to_hide, to_search_last))
            if (found := next(begun[-1])) is not None:
                return found
        # Undecided nodes cost most, so they come last: after all other nodes, of all signatures.
        return next(filter(None, itertools.chain.from_iterable(begun)), None)

    def _signatures_to_try(
        self, signature: signatures.Signature
    ) -> Iterator[tuple[signatures.Signature, node_table.Numbers]]:
        """Yield signatures to try in turn, each with the positions of the nodes that it is not meant for.

        They differ in what they ask of devices, and never in what they require of other pods.
        """
        preferred = tuple(scopes.preferred_groupings(signature.grouping))
        # Where nvidia.com/gpu means a replica, say, a request that requires a scope would still be read as
        # one for whole cards, and pass the filters. So such nodes are left out until the request is tried as
        # it is.
        of_other_units = self._positions_of_other_gpu_units(signature) if preferred else NO_POSITIONS
        for grouping in preferred:
            stricter = dataclasses.replace(signature.request, grouping=grouping)
            yield signatures.of(stricter, signature.demand), of_other_units
        yield signature, NO_POSITIONS
        for one in gpu_units.signatures_by_unit(self.inventory.table, signature):
            yield one, NO_POSITIONS

    def _positions_of_other_gpu_units(self, signature: signatures.Signature) -> node_table.Numbers:
        """Return the positions of the nodes whose gpu unit gives the request another meaning."""
        inventory = self.inventory
        meant = gpu_units.nodes_meant(inventory.table, inventory.all_rows, signature)
        return NO_POSITIONS if meant is None else inventory.name_positions()[~meant]

    def might_fit(self, query: Query, policy: Policy, names: Collection[str]) -> bool:
        """Whether one of these nodes may fit, as far as is known without searching it."""
        refused = self._positions_refused_by_inter_pod_filters(query, policy)
        positions = np.setdiff1d(self._positions(names), refused)
        for one in self._signature_and_by_unit(query.signature):
            cached = self._current_scores(one, policy)
            to_retry = self.inventory.name_positions()[cached.rows_to_retry()]
            scored = (cached.score[positions] != search_memory.INFEASIBLE).any()
            if scored or np.isin(to_retry, positions).any():
                return True
        return False

    def _signature_and_by_unit(self, signature: signatures.Signature) -> tuple[signatures.Signature, ...]:
        """Return the signature, and what it becomes on nodes of other gpu units."""
        return signature, *gpu_units.signatures_by_unit(self.inventory.table, signature)

    def _positions(self, names: Collection[str]) -> node_table.Numbers:
        """Return the positions in the order of names of these nodes, if they exist."""
        rows = [row for name in names if (row := self.inventory.index.get(name)) is not None]
        positions: node_table.Numbers = self.inventory.name_positions()[rows] if rows else NO_POSITIONS
        return positions

    def _positions_refused_by_inter_pod_filters(self, query: Query, policy: Policy) -> node_table.Numbers:
        """Return the positions of the nodes that refuse because of other pods, there or elsewhere.

        These filters take longest, so they are not asked where all nodes refuse by the others.
        """
        scores = (self._current_scores(one, policy) for one in self._signature_and_by_unit(query.signature))
        if query.signature.demand.inter_pod_rules is None or not any(one.passes_anywhere for one in scores):
            return NO_POSITIONS
        mask = registry.passes_inter_pod_filters(query)
        return NO_POSITIONS if mask is None else self.inventory.name_positions()[~mask]

    def _search_passes(
        self,
        signature: signatures.Signature,
        policy: Policy,
        effort: Effort,
        refused: node_table.Numbers,
        hidden: node_table.Numbers,
        to_search_last: node_table.Numbers,
    ) -> Iterator[decisions.Placement | None]:
        """Yield what each pass found on nodes that are not hidden; other pods rule out those `refused`.

        1. All nodes but those `to_search_last`, which are slow or were left undecided by an earlier search.
        2. Those of them that have a score: they were not searched for this signature, or have changed since.
        3. Undecided nodes that have not changed: scored again, `search_memory.MOST_RETRIES` times at most.
        """
        cached = self._current_scores(signature, policy)
        rows_for_third_pass = set(cached.rows_to_retry())
        at_first = np.union1d(hidden, to_search_last) if to_search_last.size else hidden
        with cached.hiding(at_first):
            found, failed = self._search_nodes(signature, cached, effort, refused)
        yield found
        if to_search_last.size and not effort.cut_short:
            with cached.hiding(hidden):
                found, failed = self._search_nodes(signature, cached, effort, refused, failed)
            yield found
        if rows_for_third_pass and not effort.cut_short:
            hidden_rows = np.flatnonzero(np.isin(self.inventory.name_positions(), hidden)).tolist()
            self._score_undecided_again(cached, rows_for_third_pass.difference(hidden_rows))
            with cached.hiding(hidden):
                found, _ = self._search_nodes(signature, cached, effort, refused, failed)
            yield found

    def _search_nodes(
        self,
        signature: signatures.Signature,
        cached: search_memory.CachedScores,
        effort: Effort,
        refused: node_table.Numbers,
        failed_searches: int = 0,
    ) -> tuple[decisions.Placement | None, int]:
        """Return a placement on the best node that fits, and how many nodes all passes searched in vain."""
        # Preferences are relative to the nodes that pass all filters, so the choice must know who is refused.
        best_position = choice.best_position_finder(self.inventory, signature, cached, refused)
        request, filters_suffice = signature.request, signature.need.filters_suffice
        while len(cached.score) and (filters_suffice or not effort.cut_short):
            best = int(best_position())
            if cached.score[best] == search_memory.INFEASIBLE:
                break
            info = self.inventory.at_position(best)
            view = self._view(info, cached)
            # Nodes of one class (alike in devices, wiring and use) give the same answer; None is no class.
            equivalence_class = None if filters_suffice else allocator.equivalence_class(view, request)
            reason = cached.reasons_by_class.get(equivalence_class)
            if reason is None:
                first_slot = int(cached.slot[best]) if cached.has_slots else None
                found = _allocate(view, request, first_slot, effort)
                if not isinstance(found, allocator.Shortfall):
                    self._to_search_last.note(signature, info.name, undecided=False)
                    placement = decisions.Placement(info.name, found, isolation=view.device.isolation)
                    return placement, failed_searches
                failed_searches += 1
                if not signature.need.filters_suffice and effort.is_left_to_next_round(failed_searches):
                    break
                reason = found.reason, found.detail
                cached.reasons_by_class.remember(equivalence_class, reason, view.device.size)
            undecided = reason[0] is decisions.Reason.UNDECIDED
            self._to_search_last.note(signature, info.name, undecided=undecided)
            cached.score[best] = search_memory.INFEASIBLE
            cached.remember_reason(info.row, reason, is_retried=undecided and effort.has_time_limit)
            self._cached.update_bytes(cached)
            effort.spend(1)
        return None, failed_searches

    def _view(self, info: node_info.NodeInfo, cached: search_memory.CachedScores) -> device_view.View:
        """Return the devices of a node, and how loaded they are where that counts."""
        view = info.view()
        if cached.load_log_version is None or not node_scores.weighs_load(cached.signature, cached.policy):
            return view
        weights = cached.policy.weights
        loads = weighted_points.loads_by_uuid(self.inventory.table, info.row, view.device.cards, weights)
        return view._replace(loads_by_uuid=loads)

    def _score_undecided_again(self, cached: search_memory.CachedScores, rows: set[int]) -> None:
        """Score these nodes again, so that they count as not searched yet."""
        if rows:
            cached.reasons_by_class.forget_undecided()
            self._score_rows(cached, search_memory.index_of(rows))
            self._cached.update_bytes(cached)

    def reasons_by_row(self, signature: signatures.Signature, policy: Policy) -> dict[int, NodeReason]:
        """Return why nodes that passed the filters refused when they were last searched, by row."""
        found: dict[int, NodeReason] = {}
        for one in self._signature_and_by_unit(signature):
            cached = self._cached.get(signatures.without_inter_pod_rules(one))
            if cached is not None and cached.made_under(policy, self.inventory.workload_model()):
                found |= cached.reasons_by_row
        return found

    def current_reasons_by_row(
        self, signature: signatures.Signature, policy: Policy
    ) -> dict[int, NodeReason]:
        """Return `reasons_by_row` without those of nodes that have changed since."""
        for one in self._signature_and_by_unit(signature):
            if self._cached.get(signatures.without_inter_pod_rules(one)) is not None:
                self._current_scores(one, policy)  # Forgets the reasons of nodes that have changed.
        return self.reasons_by_row(signature, policy)

    def unsearched(self, signature: signatures.Signature) -> int:
        """Count the nodes that `place` has left to its next call: once for each signature it looks for."""
        looked_for = (
            signatures.without_inter_pod_rules(one) for one, _ in self._signatures_to_try(signature)
        )
        scores = (cached.score for cached in map(self._cached.get, looked_for) if cached is not None)
        return sum(int(np.count_nonzero(score != search_memory.INFEASIBLE)) for score in scores)

    def undecided_nodes(self, signature: signatures.Signature) -> frozenset[str]:
        """Return the nodes whose last search did not end, whatever preferred scope was looked for."""
        asked = (one for one, _ in self._signatures_to_try(signature))
        return frozenset(self._to_search_last.of_any(asked))

    # ------------------------------------------------------------ remembering

    def _current_scores(self, signature: signatures.Signature, policy: Policy) -> search_memory.CachedScores:
        """Return the remembered scores, after those of nodes that have changed are made anew."""
        inventory, workload = self.inventory, self.inventory.workload_model()
        signature = signatures.without_inter_pod_rules(signature)
        cached = self._cached.get(signature)
        changed = None
        if cached is not None:
            signature = cached.signature  # The stored key: found by identity, without comparing fields.
            changed = self._changed_since(cached) if self._scores_valid(cached, policy, workload) else None
        if cached is None or changed is None or len(changed) > inventory.size // 2:
            before, cached = cached, self._scores_of_all_nodes(signature, policy, workload)
            if before is not None:
                self._take_over_reasons(cached, before)
            self._cached.put(cached)
        elif changed:
            for row in changed if cached.undecided_tries_by_row else ():
                cached.undecided_tries_by_row.pop(row, None)
            self._score_rows(cached, search_memory.index_of(set(changed)))
        self._cached.mark_used(cached)
        return cached

    def _take_over_reasons(
        self, cached: search_memory.CachedScores, before: search_memory.CachedScores
    ) -> None:
        """Let nodes that have not changed refuse as before, for why a search failed depends on nothing else.

        This matters because scores can become void every second: whenever the largest node changes, or for a
        pod with claims any claim.
        """
        changed = self._rows_changed_since(before)
        if changed is not None and before.policy == cached.policy:
            cached.take_over_reasons(before, set(changed), self.inventory.name_positions())

    def _scores_valid(
        self, cached: search_memory.CachedScores, policy: Policy, workload: workload_model.WorkloadModel
    ) -> bool:
        """Whether scores are valid for the nodes that have not changed since."""
        # The epoch rises when all remembered scores are void.
        if cached.score_epoch != self.inventory.score_epoch or not cached.made_under(policy, workload):
            return False
        if cached.preference_version != (version := self.inventory.preference_index.version):
            names = node_preferences.names_for_signature(self.inventory, cached.signature, policy.preferences)
            if cached.preferences != names:
                return False
            cached.preference_version = version
        return True

    def _changed_since(self, cached: search_memory.CachedScores) -> list[int] | None:
        """Return the rows to score again; None for all: a log does not go back so far, or volumes changed."""
        if cached.signature.demand.claims and cached.volume_version != self.inventory.volumes.version:
            return None
        return self._rows_changed_since(cached)

    def _rows_changed_since(self, cached: search_memory.CachedScores) -> list[int] | None:
        """Return the rows of nodes that have changed, and perhaps their load; None: a log has too little."""
        table = self.inventory.table
        changed = table.log.since(cached.version)
        if cached.load_log_version is None or changed is None:
            return changed
        rows_with_new_load = table.load_log.since(cached.load_log_version)
        return None if rows_with_new_load is None else changed + rows_with_new_load

    def _scores_of_all_nodes(
        self, signature: signatures.Signature, policy: Policy, workload: workload_model.WorkloadModel
    ) -> search_memory.CachedScores:
        inventory, size = self.inventory, self.inventory.size
        cached = search_memory.CachedScores(
            signature,
            policy,
            node_scores.scorer_of(signature, policy),
            workload,
            np.empty(size),
            slot=np.zeros(size, dtype=np.int32),
            version=0,
            score_epoch=inventory.score_epoch,
            preference_version=inventory.preference_index.version,
        )
        if preferences := node_preferences.names_for_signature(inventory, signature, policy.preferences):
            cached.preferences, cached.feasible = preferences, np.zeros(size, dtype=np.bool_)
            per_node = node_preferences.names_that_depend_on_the_node_alone(preferences)
            cached.raw_scores = {name: np.zeros(size) for name in per_node}
        if signatures.needs_free_memory(signature) or node_scores.weighs_load(signature, policy):
            cached.load_log_version = 0  # The scores depend on the measured load, so this is not None.
        if size:
            self._score_rows(cached, slice(0, size))
        return cached

    def _score_rows(self, cached: search_memory.CachedScores, rows: node_table.Rows) -> None:
        inventory = self.inventory
        positions = inventory.name_positions()[rows]
        scored, feasible = cached.scorer.score(inventory, rows)
        if cached.feasible is not None:
            cached.feasible[positions] = feasible
        cached.score[positions] = search_memory.INFEASIBLE_FOR_NUMPY
        if scored is not None:  # None where no node passes.
            cached.score[positions] = np.where(feasible, scored.score, search_memory.INFEASIBLE_FOR_NUMPY)
            if scored.slot is not None:
                cached.has_slots = True
                cached.slot[positions] = scored.slot
            for name, figures in cached.raw_scores.items():
                query = Query(inventory, rows, cached.signature)
                figures[positions] = node_preferences.BY_NAME[name].raw_scores(query)
        if cached.reasons_by_row:
            for row in np.arange(inventory.size)[rows].tolist():
                cached.reasons_by_row.pop(row, None)
            self._cached.update_bytes(cached)
        cached.version = inventory.table.version
        cached.volume_version = inventory.volumes.version
        if cached.load_log_version is not None:
            cached.load_log_version = inventory.table.load_log.version


def _allocate(
    view: device_view.View, request: requests.DeviceRequest, first_slot: int | None, effort: Effort
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Return devices of a node or what is short; where the filters suffice, that takes no effort."""
    if request.need.filters_suffice:
        return allocator.allocate_or_explain(view, request, first_slot=first_slot)
    with effort.part(STEPS_PER_NODE) as part:
        return allocator.allocate_or_explain(view, request, effort=part)
