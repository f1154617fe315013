"""All objects of one simulation, each once, in the order in which they were given."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_crds import names
from berth_operator.simulation import defaults, files, kinds
from berth_operator.simulation.input_errors import InputError
from berth_operator.simulation.manifests import Key, Manifest, ManifestReader, pod_key
from berth_operator.translate import raw

NAMESPACE: Final = "Namespace"  # Many a file begins with its own: the last counts.


@dataclasses.dataclass(slots=True)
class Scenario:
    """Objects by kind, namespace and name; `ignored` counts those of other kinds."""

    manifests: dict[Key, Manifest] = dataclasses.field(default_factory=dict)
    reader: ManifestReader = dataclasses.field(default_factory=ManifestReader)

    def add(self, documents: Iterable[files.Document]) -> None:
        """Add objects; none may exist already."""
        for manifest in self.reader.read(documents):
            known = self.manifests.get(manifest.key)
            if known is not None and manifest.kind != NAMESPACE:
                also = "" if known.file == manifest.file else f" (first in {known.file})"
                raise manifest.error(f"it is given twice{also}")
            self.manifests[manifest.key] = manifest

    def overlay(self, documents: Iterable[files.Document]) -> None:
        """Add objects; each replaces the one of its name, if there is one."""
        for manifest in self.reader.read(documents):
            self.manifests[manifest.key] = manifest

    def without(self, pods: Sequence[str]) -> None:
        """Remove these pods."""
        for title in pods:
            if self.manifests.pop(pod_key(title), None) is None:
                raise InputError(f"--without {title}: there is no such pod")

    def of(self, kind: str) -> Iterator[Manifest]:
        """Return all objects of a kind."""
        return (manifest for manifest in self.manifests.values() if manifest.kind == kind)

    def classes(self) -> dict[str, kinds.PriorityClass]:
        """Return the PriorityClasses by name."""
        return {manifest.name: manifest.value for manifest in self.of("PriorityClass")}

    def pods(self) -> Iterator[tuple[Manifest, raw.Pod]]:
        """Return all pods, as the API server would have stored them; no two may share a uid."""
        classes, uids = self.classes(), dict[str, str]()
        for manifest in self.of("Pod"):
            pod = defaults.pod(manifest, classes)
            other = uids.setdefault(pod.metadata.uid, manifest.title)
            if other != manifest.title:
                raise manifest.error(f"it has the uid of Pod {other}")
            yield manifest, pod

    def notes(self) -> list[str]:
        """Return what was ignored, and which objects have no effect."""
        notes = [
            f"{device.file}: Device {device.name}: "
            "there is no Node of this name, so no pod can be placed there"
            for device in self.of("Device")
            if ("Node", "", device.name) not in self.manifests
        ]
        notes += [
            f"{policy.file}: PlacementPolicy {policy.name}: "
            f"only the one named {names.DEFAULT_POLICY} is in force"
            for policy in self.of("PlacementPolicy")
            if policy.name != names.DEFAULT_POLICY
        ]
        classes = {*self.classes(), *kinds.SYSTEM_CLASSES, "", None}
        notes += [
            f"{pod.file}: Pod {pod.title}: there is no PriorityClass {name}, so its priority is 0"
            for pod in self.of("Pod")
            if (name := pod.value.spec.priority_class_name) not in classes and pod.value.spec.priority is None
        ]
        if ignored := sorted(self.reader.ignored.items()):
            notes.append("passed over: " + ", ".join(f"{count} {kind}" for kind, count in ignored))
        return notes
