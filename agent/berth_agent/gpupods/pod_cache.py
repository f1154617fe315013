"""The pods of the node by name and uid, and the pods of its containers, from the watch."""

from collections.abc import Callable, Iterable

import msgspec

from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import cgroups, device_ids
from berth_crds import names, wire
from berth_crds.client import store


class PodCache:
    """All pods bound to the node; `on_change` is called with the key of each that changes."""

    def __init__(self, on_change: Callable[[store.Key], None]) -> None:
        self._on_change = on_change
        self._pods: dict[store.Key, watched_pod.Pod] = {}
        self._keys: dict[str, store.Key] = {}
        self._containers: dict[str, tuple[store.Key, str]] = {}

    def upserted(self, pod: watched_pod.Pod, /) -> None:
        """Apply a version from the watch; most changes of a pod do not matter here."""
        pod, key = _trimmed(pod), store.key_of(pod.metadata)
        if self._pods.get(key) == pod:
            return
        self._forget(key)
        self._pods[key] = pod
        self._keys[pod.metadata.uid] = key
        for container_id, name in watched_pod.container_ids(pod):
            self._containers[container_id] = key, name
        self._on_change(key)

    def deleted(self, meta: wire.Meta, /) -> None:
        """Forget a pod."""
        key = store.key_of(meta)
        if self._forget(key):
            self._on_change(key)

    def get(self, key: store.Key) -> watched_pod.Pod | None:
        """Return one pod, None if there is none."""
        return self._pods.get(key)

    def of_uid(self, uid: str) -> store.Key | None:
        """Return the key of the pod with this uid, if it is known."""
        return self._keys.get(uid)

    def living_uid(self, key: store.Key) -> str:
        """Return the uid of a pod that has not ended; empty for all others."""
        pod = self._pods.get(key)
        return pod.metadata.uid if pod and not watched_pod.has_ended(pod) else ""

    def is_running(self, key: store.Key) -> bool:
        """Whether the containers of a pod were started."""
        pod = self._pods.get(key)
        return pod is not None and pod.runs

    def pods(self) -> Iterable[watched_pod.Pod]:
        """Return all pods."""
        return self._pods.values()

    def keys(self) -> list[store.Key]:
        """Return the keys of all pods."""
        return list(self._pods)

    def placed_by_berth(self) -> Iterable[store.Key]:
        """Return the keys of the pods that Berth placed."""
        return [key for key, pod in self._pods.items() if names.ALLOCATION in pod.metadata.annotations]

    def owner_of(self, owner: cgroups.CgroupOwner) -> tuple[device_ids.PodKey, str] | None:
        """Return the pod and the container of a cgroup; an unknown container is empty.

        A static pod has another uid in the API than in its cgroup, and the path may be too short to
        name a pod: then the id of the container decides. Where the two disagree, the pod counts.
        """
        by_container = self._containers.get(owner.container_id)
        key = self._keys.get(owner.pod_uid)
        if key is None or (by_container and by_container[0] == key):
            return by_container
        return key, "" if owner.container_id else self._only_container(key)

    def _only_container(self, key: store.Key) -> str:
        """Return the name of the only container of a pod; empty where there are several."""
        names_of = {name for _, name in watched_pod.container_ids(self._pods[key])}
        return names_of.pop() if len(names_of) == 1 else ""

    def _forget(self, key: store.Key) -> bool:
        if (pod := self._pods.pop(key, None)) is None:
            return False
        self._keys.pop(pod.metadata.uid, None)
        for container_id, _ in watched_pod.container_ids(pod):
            self._containers.pop(container_id, None)
        return True


def _trimmed(pod: watched_pod.Pod) -> watched_pod.Pod:
    """Return a pod without what does not matter here, which may be large and change all the time."""
    meta = pod.metadata
    kept = {key: text for key, text in meta.annotations.items() if key == names.ALLOCATION}
    bare = wire.Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, annotations=kept)
    spec = watched_pod.PodSpec(
        pod.spec.node_name,
        watched_pod.asking_for_devices(pod.spec.containers),
        watched_pod.asking_for_devices(pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, metadata=bare, spec=spec)
