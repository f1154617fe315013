"""All objects of one simulation, each once, in the order in which they were given."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_crds import names
from berth_operator.simulation import defaults, files, kinds, manifests
from berth_operator.simulation.mistakes import Mistake
from berth_operator.translate import raw

NAMESPACE: Final = "Namespace"  # Manifests begin with it so often that it is not worth a word.
Key = tuple[str, str, str]


@dataclasses.dataclass(slots=True)
class Scenario:
    """Objects by kind, namespace and name; `ignored` counts those of other kinds."""

    things: dict[Key, manifests.Thing] = dataclasses.field(default_factory=dict)
    reader: manifests.Reader = dataclasses.field(default_factory=manifests.Reader)

    def add(self, documents: Iterable[files.Document]) -> None:
        """Add objects; none may be there already."""
        for thing in self.reader.read(documents):
            known = self.things.get(thing.key)
            if known is not None:
                also = "" if known.file == thing.file else f" (first in {known.file})"
                raise thing.mistake(f"it is given twice{also}")
            self.things[thing.key] = thing

    def overlay(self, documents: Iterable[files.Document]) -> None:
        """Add objects; each takes the place of the one of its name, if there is one."""
        for thing in self.reader.read(documents):
            self.things[thing.key] = thing

    def without(self, pods: Sequence[str]) -> None:
        """Leave pods out."""
        for title in pods:
            key = pod_key(title)
            if self.things.pop(key, None) is None:
                raise Mistake(f"--without {title}: there is no such pod")

    def of(self, kind: str) -> Iterator[manifests.Thing]:
        """Return all objects of a kind."""
        return (thing for thing in self.things.values() if thing.kind == kind)

    def classes(self) -> dict[str, kinds.PriorityClass]:
        """Return the PriorityClasses by name."""
        return {thing.name: thing.value for thing in self.of("PriorityClass")}

    def pods(self) -> Iterator[tuple[manifests.Thing, raw.Pod]]:
        """Return all pods, as the API server would have stored them; no two may share a uid."""
        classes, uids = self.classes(), dict[str, str]()
        for thing in self.of("Pod"):
            pod = defaults.pod(thing, classes)
            other = uids.setdefault(pod.metadata.uid, thing.title)
            if other != thing.title:
                raise thing.mistake(f"it has the uid of Pod {other}")
            yield thing, pod


def pod_key(title: str) -> Key:
    """Read `namespace/name`, or a name in the namespace `default`."""
    namespace, slash, name = title.partition("/")
    return "Pod", *((namespace, name) if slash else (manifests.DEFAULT_NAMESPACE, namespace))


def notes(given: Scenario) -> list[str]:
    """Return what was passed over, and what will not count though it was given."""
    nodes = {thing.name for thing in given.of("Node")}
    told = [
        f"{thing.file}: Device {thing.name}: there is no Node of this name, so no pod can be placed there"
        for thing in given.of("Device")
        if thing.name not in nodes
    ]
    told += [
        f"{thing.file}: PlacementPolicy {thing.name}: only the one named {names.DEFAULT_POLICY} is in force"
        for thing in given.of("PlacementPolicy")
        if thing.name != names.DEFAULT_POLICY
    ]
    classes = {*given.classes(), *kinds.SYSTEM_CLASSES, ""}
    told += [
        f"{thing.file}: Pod {thing.title}: there is no PriorityClass {name}, so its priority is 0"
        for thing in given.of("Pod")
        if (name := defaults.class_name(thing)) not in classes and thing.value.spec.priority is None
    ]
    ignored = [found for found in sorted(given.reader.ignored.items()) if found[0] != NAMESPACE]
    if ignored:
        told.append("passed over: " + ", ".join(f"{count} {kind}" for kind, count in ignored))
    return told
