"""Decides what the kubelet is answered for a container. It finds out for which pod the kubelet asks.

A container of a pod that Berth bound gets the cards of its annotation. For others the best joined set is
preferred of the cards that nobody holds and that were promised to nobody. Where the pod cannot be found out
in time the kubelet chooses by itself, and gets what it chose if that is free.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent.delivery import topology_choice
from berth_agent.delivery.containers import GivenCard, Undeliverable
from berth_agent.delivery.device_nodes import DEV
from berth_agent.delivery.means import DirectMeans
from berth_agent.device_plugin import admission, claims, offers, responses
from berth_agent.device_plugin.admission import Admitted
from berth_agent.device_plugin.claims import Claim
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import podresources
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.kubelet.plugin_messages import ContainerResponse, Preference
from berth_agent.kubelet.plugin_server import Refused
from berth_agent.plugin_choices import PluginChoices
from berth_crds import names, wire

log = logging.getLogger(__name__)

FOUND_SECONDS: Final = 2.0  # For as long the pod is looked for; the kubelet admits no other meanwhile.
LOOK_SECONDS: Final = 0.05
SETTLE_SECONDS: Final = 0.5  # Since a pod was first seen here; a bind takes some hundredths.
LIST_SECONDS: Final = 1.0  # For one answer of the kubelet's.

Pods = Callable[[], Iterable[watched_pod.Pod]]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeState:
    """The cards of the node with their partitions, and those that are sick."""

    cards: Sequence[wire.Card] = ()
    partitions: Sequence[wire.Partition] = ()
    sick: Collection[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerRules:
    """What containers get with their devices."""

    choices: PluginChoices
    means: DirectMeans
    host_dev: Path = DEV


class PluginAnswers:
    """The answers of one node, by its cards, its pods, and what its kubelet lists as given."""

    def __init__(
        self, node: str, rules: AnswerRules, kubelet: podresources.PodResourcesLister, pods: Pods
    ) -> None:
        self._node = node
        self._rules = rules
        self._kubelet = kubelet
        self._pods = pods
        self._remembered: dict[str, dict[str, tuple[str, ...]]] = {}
        self._first_seen: dict[str, float] = {}
        self.state = NodeState()
        self.listed: tuple[podresources.ListedPod, ...] = ()

    def offers(self) -> Mapping[str, offers.Offer]:
        """Return the devices of each resource as they are now."""
        return offers.offers(self.state.cards, self.state.sick, claims.names_of(self._claims()))

    def note_pods(self) -> None:
        """Note when each pod was first seen, and forget those that are gone."""
        now = asyncio.get_running_loop().time()
        self._first_seen = {
            uid: self._first_seen.get(uid, now) for uid in (pod.metadata.uid for pod in self._pods())
        }
        self._remembered = {uid: kept for uid, kept in self._remembered.items() if uid in self._first_seen}

    def _claims(self) -> Iterator[Claim]:
        resources = claims.resources_of(self.state.cards)
        for pod in self._living():
            yield from claims.promised(pod, resources)
        yield from claims.given(self.listed, set(resources.values()))

    async def preferred(self, resource: str, preference: Preference) -> Sequence[str]:
        """Return the ids that a container should get; empty where the pod was not found out in time."""
        admitted = await self._admitted(resource, preference.size)
        if admitted is None:
            return ()
        promised = self._promised_to(admitted, resource)
        if promised:
            return _ids_of(promised, preference)
        await self._settle(admitted.pod)
        free = self._unclaimed(preference.available, admitted.pod)
        return self._best(resource, free, preference)

    async def allocated(self, resource: str, ids: tuple[str, ...]) -> ContainerResponse:
        """Return what a container gets with the devices that the kubelet chose, or raise `Refused`."""
        admitted = await self._admitted(resource, len(ids))
        uuids = tuple(dict.fromkeys(uuid_of(one) for one in ids))
        self._check(resource, uuids, admitted)
        if admitted:
            self._remembered.setdefault(admitted.pod.metadata.uid, {})[admitted.container] = ids
        promised = self._promised_to(admitted, resource) if admitted else ()
        try:
            return responses.response(
                self._given(uuids, promised),
                self._rules.choices,
                self._rules.means,
                host_dev=self._rules.host_dev,
            )
        except Undeliverable as error:
            raise Refused(f"{error}") from error

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
        log.warning("node %s: the pod that asks for %d %s was not found out", self._node, size, resource)
        return None

    async def _settle(self, pod: watched_pod.Pod) -> None:
        """Wait until binds that were decided before the scheduler knew of a pod have come here."""
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self._first_seen.get(pod.metadata.uid, now) + SETTLE_SECONDS - now)

    def _living(self) -> list[watched_pod.Pod]:
        return [pod for pod in self._pods() if not watched_pod.has_ended(pod)]

    def _promised_to(self, admitted: Admitted, resource: str) -> tuple[str, ...]:
        """Return the uuids that the bind promised to a container by this resource."""
        resources = claims.resources_of(self.state.cards)
        return tuple(
            claim.uuid
            for claim in claims.promised(admitted.pod, resources)
            if (claim.container, claim.resource) == (admitted.container, resource)
        )

    def _unclaimed(self, available: Iterable[str], pod: watched_pod.Pod) -> list[str]:
        """Return the available devices that no other pod holds or was promised."""
        key = claims.key_of(pod)
        taken = {claim.uuid for claim in self._claims() if claim.pod != key}
        return [one for one in available if uuid_of(one) not in taken]

    def _best(self, resource: str, free: Sequence[str], preference: Preference) -> Sequence[str]:
        """Return the best devices of those that are free, for a pod that Berth has not bound."""
        size, must_include = preference.size, preference.must_include
        if resource != names.NVIDIA_GPU:
            rest = [one for one in free if one not in must_include]
            return (*must_include, *rest)[:size] if len(must_include) + len(rest) >= size else ()
        state = self.state
        return topology_choice.best_set(
            state.cards, state.partitions, {*free, *must_include}, must_include, size
        )

    def _check(self, resource: str, uuids: Collection[str], admitted: Admitted | None) -> None:
        """Raise `Refused` where a device is held by another pod, or was promised to one, as a whole."""
        own = claims.key_of(admitted.pod) if admitted else None
        for claim in self._claims():
            shared = resource == claim.resource == names.NVIDIA_GPU_SHARED
            if claim.uuid in uuids and claim.pod != own and not shared:
                raise Refused(
                    f"{claim.uuid} is for pod {claim.pod[0]}/{claim.pod[1]}; no other card was offered"
                )
        promised = set(self._promised_to(admitted, resource)) if admitted else set()
        if promised and promised != set(uuids):
            log.warning(
                "node %s: the kubelet gives %s in place of %s", self._node, list(uuids), sorted(promised)
            )

    def _given(self, uuids: Collection[str], promised: Sequence[str]) -> list[GivenCard]:
        """Return the cards in the order of the promise, else by minor; the kubelet names them in none."""
        found = {given.uuid: given for card in self.state.cards for given in _givens(card)}
        if unknown := [uuid for uuid in uuids if uuid not in found]:
            raise Refused(f"the node has no card {unknown[0]} now")
        place = {uuid: number for number, uuid in enumerate(promised)}
        ordered = sorted(uuids, key=lambda uuid: (place.get(uuid, len(place)), found[uuid].card.minor, uuid))
        return [found[uuid] for uuid in ordered]


def _ids_of(uuids: Sequence[str], preference: Preference) -> Sequence[str]:
    """Return the available ids of promised cards; of a shared one the first replica that is free."""
    free = list(preference.available)
    found = []
    for uuid in uuids:
        if (match := next((one for one in free if uuid_of(one) == uuid), None)) is None:
            return ()
        free.remove(match)
        found.append(match)
    return found


def _givens(card: wire.Card) -> Iterator[GivenCard]:
    yield GivenCard(card)
    yield from (GivenCard(card, instance) for instance in (card.mig.instances if card.mig else ()))
