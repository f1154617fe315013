"""The pods of the node, as the watch tells them, and whose containers are whose."""

from collections.abc import Callable, Iterable

import msgspec

from berth_agent.gpupods import record
from berth_agent.kubelet import cgroups, ids
from berth_agent.publish import mirror
from berth_crds import names, wire


class Roster:
    """All pods bound to the node; `on_change` is told of each that comes, changes or goes."""

    def __init__(self, on_change: Callable[[mirror.Key], None]) -> None:
        self._on_change = on_change
        self._pods: dict[mirror.Key, record.Pod] = {}
        self._keys: dict[str, mirror.Key] = {}
        self._containers: dict[str, tuple[mirror.Key, str]] = {}

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<Roster: {len(self._pods)} pods, {len(self._containers)} containers>"

    def upserted(self, pod: record.Pod, /) -> None:
        """Apply what the watch says; of most changes of a pod nothing follows here."""
        pod, key = _trimmed(pod), mirror.key_of(pod.metadata)
        if self._pods.get(key) == pod:
            return
        self._forget(key)
        self._pods[key] = pod
        self._keys[pod.metadata.uid] = key
        for container_id, name in record.containers(pod):
            self._containers[container_id] = key, name
        self._on_change(key)

    def deleted(self, meta: wire.Meta, /) -> None:
        """Forget a pod."""
        key = mirror.key_of(meta)
        if self._forget(key):
            self._on_change(key)

    def get(self, key: mirror.Key) -> record.Pod | None:
        """Return what is known of one pod."""
        return self._pods.get(key)

    def of_uid(self, uid: str) -> mirror.Key | None:
        """Return the key of the pod with this uid, if it is known."""
        return self._keys.get(uid)

    def living(self, key: mirror.Key) -> str:
        """Return the uid of a pod that has not ended; empty for all others."""
        pod = self._pods.get(key)
        return pod.metadata.uid if pod and not record.finished(pod) else ""

    def runs(self, key: mirror.Key) -> bool:
        """Whether the containers of a pod were started."""
        pod = self._pods.get(key)
        return pod is not None and pod.runs

    def keys(self) -> list[mirror.Key]:
        """Name all pods."""
        return list(self._pods)

    def placed(self) -> Iterable[mirror.Key]:
        """Name the pods that Berth placed."""
        return [key for key, pod in self._pods.items() if names.ALLOCATION in pod.metadata.annotations]

    def join(self, place: cgroups.Place) -> tuple[ids.Key, str] | None:
        """Find the pod and the container that run at a place; the container may stay unknown.

        A static pod has another uid in the API than in its cgroup, and the path may be too short to
        name a pod: then the container's id leads there. Where the two disagree, the pod counts.
        """
        by_container = self._containers.get(place.container_id)
        key = self._keys.get(place.pod_uid)
        if key is None or (by_container and by_container[0] == key):
            return by_container
        return key, "" if place.container_id else self._only_container(key)

    def _only_container(self, key: mirror.Key) -> str:
        """Name the container of a pod that has just one: what runs in the pod is that."""
        names_of = {name for _, name in record.containers(self._pods[key])}
        return names_of.pop() if len(names_of) == 1 else ""

    def _forget(self, key: mirror.Key) -> bool:
        pod = self._pods.pop(key, None)
        if pod is None:
            return False
        self._keys.pop(pod.metadata.uid, None)
        for container_id, _ in record.containers(pod):
            self._containers.pop(container_id, None)
        return True


def _trimmed(pod: record.Pod) -> record.Pod:
    """Keep what matters here: others may have written a lot on a pod, and change it all the time."""
    meta = pod.metadata
    kept = {key: text for key, text in meta.annotations.items() if key == names.ALLOCATION}
    bare = wire.Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, annotations=kept)
    spec = record.PodSpec(pod.spec.node_name, record.askers(pod))
    return msgspec.structs.replace(pod, metadata=bare, spec=spec)
