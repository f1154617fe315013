"""Decides what the kubelet is answered for a container. It finds out for which pod the kubelet asks.

A container of a pod that Berth bound gets the cards of its annotation. For others the best joined set is
preferred of the cards that nobody holds and that were promised to nobody. Where the pod cannot be found out
in time the kubelet chooses by itself, and gets what it chose if that is free.
"""

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent.delivery import containers, replica_choice, topology_choice
from berth_agent.delivery.containers import GivenCard, Limits, Part, Undeliverable, cards_and_instances
from berth_agent.delivery.device_nodes import DEV
from berth_agent.delivery.isolation import NOT_ISOLATED, Isolation, Mps, MpsIsolation
from berth_agent.delivery.means import DirectMeans
from berth_agent.device_plugin import admission, claims, offers, parts, responses
from berth_agent.device_plugin.admission import Admitted
from berth_agent.device_plugin.claims import Claim
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import podresources
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.kubelet.plugin_messages import ContainerResponse, Preference
from berth_agent.kubelet.plugin_server import AllocationRefused
from berth_agent.plugin_choices import PluginChoices
from berth_agent.way import NodePods
from berth_crds import names, schema_limits, vocabulary, wire

log = logging.getLogger(__name__)

FOUND_SECONDS: Final = 2.0  # For as long the pod is looked for; the kubelet admits no other meanwhile.
LOOK_SECONDS: Final = 0.05
SETTLE_SECONDS: Final = 0.5  # Since a pod was first seen here; a bind takes some hundredths.
LIST_SECONDS: Final = 1.0  # For one answer of the kubelet's.
SEVERAL_PODS: Final = frozenset({names.NVIDIA_GPU_SHARED, names.GPU})  # May have the same card.


@dataclasses.dataclass(frozen=True, slots=True)
class NodeState:
    """The cards of the node, their partitions, which are sick, and what nvidia.com/gpu stands for."""

    cards: Sequence[wire.Card] = ()
    partitions: Sequence[wire.Partition] = ()
    sick: Collection[str] = frozenset()
    gpu_stands_for: str = ""

    def countable(self) -> Iterator[offers.Countable]:
        """Yield each device that the kubelet counts."""
        return offers.countable(self.cards, self.gpu_stands_for)

    def counted(self) -> claims.Counted:
        """Return as what each card or instance counts, apart from its parts."""
        return claims.counted(self.countable())

    def meaning(self, resource: str) -> str:
        """Return which resource would ask elsewhere for what this one asks for here."""
        return offers.meaning(resource, self.gpu_stands_for)


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerRules:
    """What containers get with their devices; with `mps`, replicas of cards are programs of its daemon.

    `isolation` keeps containers to their parts.
    """

    choices: PluginChoices
    means: DirectMeans
    host_dev: Path = DEV
    mps: Mps | None = None
    isolation: Isolation = NOT_ISOLATED


class PluginAnswers:
    """The answers of one node, by its cards, its pods, and what its kubelet lists as given."""

    def __init__(
        self, node: str, rules: AnswerRules, kubelet: podresources.PodResourcesLister, pods: NodePods
    ) -> None:
        self._node = node
        self._rules = rules
        self._kubelet = kubelet
        self._pods = pods
        self._remembered: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {}
        self._first_seen: dict[str, float] = {}
        self._known: set[claims.PodKey] = set()
        self._gone: set[claims.PodKey] = set()  # Those that the kubelet was said to list at the last time.
        self.state = NodeState()
        self.listed: tuple[podresources.ListedPod, ...] = ()

    def offers(self) -> Mapping[str, offers.Offer]:
        """Return the devices of each resource as they are now."""
        claimed, countable = list(self._claims()), tuple(self.state.countable())
        withdrawn = parts.withdrawn(claimed, self._specs(), self._given_ids(), countable)
        return offers.offers(countable, self.state.sick, claims.meanings_of(claimed), withdrawn)

    def note_pods(self) -> None:
        """Note when each pod was first seen, and forget those that are gone."""
        keys, listed = {claims.key_of(pod) for pod in self._pods.pods()}, set(map(_key, self.listed))
        self._gone = ((self._gone | self._known) - keys) & listed
        self._known = keys
        now = asyncio.get_running_loop().time()
        self._first_seen = {
            uid: self._first_seen.get(uid, now) for uid in (pod.metadata.uid for pod in self._pods.pods())
        }
        self._remembered = {uid: kept for uid, kept in self._remembered.items() if uid in self._first_seen}

    def _claims(self) -> Iterator[Claim]:
        counted = self.state.counted()
        for pod in self._living():
            yield from claims.promised(pod, counted)
        yield from claims.given(self._given_pods(), counted)

    def _given_pods(self) -> Iterator[podresources.ListedPod]:
        """Yield what the kubelet gave to pods that have not ended: as it lists them, and as is remembered.

        It lists no init containers, and a pod that has ended until it is asked anew.
        """
        ended = {claims.key_of(pod) for pod in self._pods.pods() if watched_pod.has_ended(pod)} | self._gone
        yield from (pod for pod in self.listed if _key(pod) not in ended)
        for pod in self._living():
            if allocated := self._remembered.get(pod.metadata.uid):
                found = (
                    podresources.ListedContainer(name, (podresources.ListedDevices(resource, ids),))
                    for (name, resource), ids in allocated.items()
                )
                yield podresources.ListedPod(*claims.key_of(pod), tuple(found))

    def _specs(self) -> parts.Specs:
        return {claims.key_of(pod): pod.spec for pod in self._living()}

    def _given_ids(self) -> frozenset[str]:
        """Return the devices that the kubelet has given, as far as it lists or this process gave them."""
        containers = (one for pod in self._given_pods() for one in pod.containers)
        return frozenset(device for one in containers for devices in one.devices for device in devices.ids)

    def awaiting(self) -> Iterator[claims.PodKey]:
        """Yield the pods that have come, and that the kubelet has not given all that they ask it for."""
        resources = {one.resource for one in self.state.countable()}
        entries = {_key(one): one for one in self.listed}
        for pod in self._living():
            key, remembered = claims.key_of(pod), self._remembered.get(pod.metadata.uid, {})
            if admission.is_awaited(resources, pod, entries.get(key), remembered):
                yield key

    async def preferred(self, resource: str, preference: Preference) -> Sequence[str]:
        """Return the ids that a container should get; empty where the pod was not found out in time."""
        admitted = await self._admitted(resource, preference.size)
        if admitted is None:
            return ()
        promised = self._promised_to(admitted, resource)
        if promised:
            return _ids_of(promised, preference)
        await self._settle(admitted.pod)
        return self._best(resource, preference, admitted.pod)

    async def allocated(self, resource: str, ids: tuple[str, ...]) -> ContainerResponse:
        """Return what a container gets with the chosen devices, or raise `AllocationRefused`."""
        self._check_count(resource, len(ids))
        admitted = await self._admitted(resource, len(ids))
        if admitted:
            _check_containers(admitted.pod)
        chosen = tuple(dict.fromkeys(uuid_of(one) for one in ids))
        promised = self._promised_to(admitted, resource) if admitted else ()
        if not promised and not self._pods.are_current:
            raise AllocationRefused("it is not known yet which cards are reserved for which pod")
        is_part = self.state.meaning(resource) == names.GPU
        if promised and self._are_own(promised, admitted) and (is_part or len(promised) == len(chosen)):
            # Cards of the pod's init containers come in no order, and without a question which are preferred.
            chosen = promised
        self._check(resource, ids, chosen, admitted, promised)
        if admitted:
            allocated = self._remembered.setdefault(admitted.pod.metadata.uid, {})
            allocated[admitted.container, resource] = ids
        bound = admitted if admitted and set(promised) == set(chosen) else None
        try:
            return self._answer(resource, ids, self._given(chosen, promised), bound)
        except Undeliverable as error:
            raise AllocationRefused(f"{error}") from error

    def _answer(
        self, resource: str, ids: Sequence[str], given: Sequence[GivenCard], bound: Admitted | None
    ) -> ContainerResponse:
        """Return what a container gets with these cards; `bound` is one that gets what its bind promised.

        The latter is told of all that it was promised, whichever resource is asked about: of one variable the
        kubelet keeps what was said about any.
        """
        rules = self._rules
        promised = self._parts_by_bind(bound) if bound else []
        visible = [one.given for one in promised]
        answer = responses.response(
            given, rules.choices, rules.means, host_dev=rules.host_dev, visible=visible
        )
        held = promised or self._parts_by_kubelet(resource, ids, given)
        return responses.limited(answer, self._limits(given, held))

    def _parts_by_bind(self, bound: Admitted) -> list[Part]:
        """Return what the bind promised to a container by resources of the plugin."""
        claimed = claims.promised(bound.pod, self.state.counted())
        counted = {one.uuid for one in claimed if one.container == bound.container and one.resource}
        annotations = bound.pod.metadata.annotations
        found = containers.parts(annotations, bound.container, self._node, self.state.cards)
        return [one for one in found if one.given.uuid in counted]

    def _parts_by_kubelet(self, resource: str, ids: Sequence[str], given: Sequence[GivenCard]) -> list[Part]:
        is_part = self.state.meaning(resource) == names.GPU
        return parts.of_cards(ids, given) if is_part else list(map(parts.whole, given))

    def _limits(self, given: Sequence[GivenCard], held: Sequence[Part]) -> Limits:
        """Return what keeps a container to its parts; replicas by MPS its daemon knows by itself."""
        by_mps = vocabulary.SharingStrategy.MPS
        if self._rules.mps and any(one.card.sharing and one.card.sharing.strategy == by_mps for one in given):
            return MpsIsolation(self._rules.mps).limits(list(map(parts.whole, given)))
        return self._rules.isolation.limits(held)

    def _are_own(self, uuids: Iterable[str], admitted: Admitted | None) -> bool:
        """Whether containers of the same pod were given all these before."""
        uid = admitted.pod.metadata.uid if admitted else ""
        given = (ids for ids in self._remembered.get(uid, {}).values())
        return set(uuids) <= {uuid_of(one) for ids in given for one in ids}

    async def _admitted(self, resource: str, size: int) -> Admitted | None:
        """Return the container that the kubelet asks for, if it is found out in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FOUND_SECONDS):
                while True:
                    with contextlib.suppress(podresources.PodResourcesError):
                        # What was listed before may name pods that are gone by now.
                        self.listed = await self._kubelet.pods()
                        found = admission.admitted(
                            resource, size, self._living(), self.listed, self._remembered
                        )
                        if found:
                            return found
                    await asyncio.sleep(LOOK_SECONDS)
        log.warning("node %s: the pod that asks for %d %s could not be found", self._node, size, resource)
        return None

    async def _settle(self, pod: watched_pod.Pod) -> None:
        """Wait until binds that were decided before the scheduler knew of a pod have come here."""
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self._first_seen.get(pod.metadata.uid, now) + SETTLE_SECONDS - now)

    def _living(self) -> list[watched_pod.Pod]:
        return [pod for pod in self._pods.pods() if not watched_pod.has_ended(pod)]

    def _promised_to(self, admitted: Admitted, resource: str) -> tuple[str, ...]:
        """Return the uuids that the bind promised to a container by this resource."""
        return tuple(
            claim.uuid
            for claim in claims.promised(admitted.pod, self.state.counted())
            if (claim.container, claim.resource) == (admitted.container, resource)
        )

    def _unclaimed(self, available: Iterable[str], pod: watched_pod.Pod) -> list[str]:
        """Return the available devices that no other pod holds or was promised."""
        key = claims.key_of(pod)
        taken = {claim.uuid for claim in self._claims() if claim.pod != key}
        return [one for one in available if uuid_of(one) not in taken]

    def _best(self, resource: str, preference: Preference, pod: watched_pod.Pod) -> Sequence[str]:
        """Return the best devices of those promised to nobody, for a pod that Berth has not bound."""
        size, must_include, meaning = preference.size, preference.must_include, self.state.meaning(resource)
        if meaning == names.GPU:
            left = self._left(claims.key_of(pod))
            return parts.best(preference, left, self.state.cards, self.state.partitions)
        if meaning == names.NVIDIA_GPU_SHARED:
            return replica_choice.best_replicas(
                preference.available,
                must_include,
                size,
                self._room(preference.available, pod),
                card_of=uuid_of,
                packed=self._rules.choices.packed,
            )
        free = self._unclaimed(preference.available, pod)
        if meaning != names.NVIDIA_GPU:
            rest = [one for one in free if one not in must_include]
            return (*must_include, *rest)[:size] if len(must_include) + len(rest) >= size else ()
        state = self.state
        return topology_choice.best_set(
            state.cards, state.partitions, {*free, *must_include}, must_include, size
        )

    def _room(self, available: Iterable[str], pod: watched_pod.Pod) -> Mapping[str, int]:
        """Return how many available replicas of each card are promised to no other pod."""
        own, counted = claims.key_of(pod), self.state.counted()
        listed = {(one.namespace, one.name) for one in self.listed}
        waiting = collections.Counter[str]()
        for claim in itertools.chain.from_iterable(claims.promised(one, counted) for one in self._living()):
            if claim.pod != own and claim.pod not in listed:
                waiting[claim.uuid] += claim.amount
        return collections.Counter(map(uuid_of, available)) - waiting

    def _check_count(self, resource: str, count: int) -> None:
        """Raise `AllocationRefused` where a container asks for several replicas, and that is not wanted."""
        shared = self.state.meaning(resource) == names.NVIDIA_GPU_SHARED
        if shared and count > 1 and self._rules.choices.one_replica_each:
            raise AllocationRefused(f"{count} replicas give no more of a card than one: ask for 1 {resource}")

    def _left(self, own: claims.PodKey | None) -> Mapping[str, int]:
        """Return how many percent of each card are promised to no other pod."""
        claimed = [claim for claim in self._claims() if claim.pod != own]
        uuids = (one.uuid for one in self.state.countable() if one.resource == names.GPU)
        return parts.left(claimed, self._specs(), uuids)

    def _check(
        self,
        resource: str,
        ids: Sequence[str],
        uuids: Collection[str],
        admitted: Admitted | None,
        promised: Collection[str],
    ) -> None:
        """Raise `AllocationRefused` where a device is held by or promised to others, or too much is asked."""
        own, meaning = claims.key_of(admitted.pod) if admitted else None, self.state.meaning(resource)
        for claim in self._claims():
            shared = claim.meaning == meaning and meaning in SEVERAL_PODS
            if claim.uuid in uuids and claim.pod != own and not shared:
                # Which pod that is, is none of the other's business.
                log.warning("node %s: %s is kept for pod %s/%s", self._node, claim.uuid, *claim.pod)
                raise AllocationRefused(
                    f"the kubelet offered only {claim.uuid}, which is reserved for another pod"
                )
        swapped = bool(promised) and set(promised) != set(uuids)
        if meaning == names.GPU and swapped:
            raise AllocationRefused(f"the kubelet chose {', '.join(uuids)} in place of {', '.join(promised)}")
        if meaning == names.GPU and not promised and (why := parts.objection(ids, self._left(own))):
            raise AllocationRefused(why)
        if swapped:
            log.warning(
                "node %s: the kubelet gives %s in place of %s", self._node, list(uuids), sorted(promised)
            )

    def _given(self, uuids: Collection[str], promised: Sequence[str]) -> list[GivenCard]:
        """Return the cards in the order of the promise, else by minor; the kubelet names them in none."""
        found = {given.uuid: given for given in cards_and_instances(self.state.cards)}
        if unknown := [uuid for uuid in uuids if uuid not in found]:
            raise AllocationRefused(f"the node has no card {unknown[0]} now")
        place = {uuid: number for number, uuid in enumerate(promised)}
        ordered = sorted(uuids, key=lambda uuid: (place.get(uuid, len(place)), found[uuid].card.minor, uuid))
        return [found[uuid] for uuid in ordered]


def _check_containers(pod: watched_pod.Pod) -> None:
    """Raise `AllocationRefused` where the kubelet would ask for minutes, and admit no other pod meanwhile."""
    count = len(watched_pod.requesting_containers(pod))
    if count > schema_limits.MOST_ENTRIES:
        most = schema_limits.MOST_ENTRIES
        raise AllocationRefused(
            f"{count} containers of the pod ask for cards or other devices; {most} are the most"
        )


def _key(pod: podresources.ListedPod) -> claims.PodKey:
    return pod.namespace, pod.name


def _ids_of(uuids: Sequence[str], preference: Preference) -> Sequence[str]:
    """Return the available ids of promised cards, in turns where more replicas of them are asked for."""
    free: dict[str, list[str]] = {}
    for one in preference.available:
        free.setdefault(uuid_of(one), []).append(one)
    found: list[str] = []
    for uuid in itertools.islice(itertools.cycle(uuids), preference.size):
        if not free.get(uuid):
            return ()
        found.append(free[uuid].pop(0))
    return found
