"""Objects out of documents: lists are unfolded, each object is read as its kind says.

Objects of kinds that play no part in placing are counted and left alone, so that whole
dumps of a namespace or of a cluster can be read as they are. The exception are those from
which pods would be made, as no controller is at work here: written by hand they are
refused with the way to get the pods; those that a cluster gave already have theirs.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from berth_crds import schema_limits
from berth_operator.simulation import files, kinds, mistakes
from berth_operator.simulation.mistakes import Mistake

DEFAULT_NAMESPACE = "default"
WORKLOADS: Final = frozenset(
    {
        ("", "ReplicationController"),
        *(("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
        *(("batch", kind) for kind in ("CronJob", "Job")),
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Thing:
    """One object: what it is called, where it was written, its body and what was read of it."""

    kind: str
    namespace: str
    name: str
    file: str
    body: kinds.Body
    value: Any

    @property
    def key(self) -> tuple[str, str, str]:
        """What no two objects may share."""
        return self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """Name it as people do."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def mistake(self, what: str) -> Mistake:
        """Say what is wrong with it."""
        return Mistake(f"{self.file}: {self.kind} {self.title}: {what}")


@dataclasses.dataclass(slots=True)
class Reader:
    """Reads documents, and remembers what it passed over and which names it made up."""

    ignored: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    generated: collections.Counter[tuple[str, str]] = dataclasses.field(default_factory=collections.Counter)

    def read(self, documents: Iterable[files.Document]) -> Iterator[Thing]:
        """Read all objects of these documents, in order."""
        for document in documents:
            yield from self._in_document(document)

    def _in_document(self, document: files.Document) -> Iterator[Thing]:
        if isinstance(document.value, list):
            raise Mistake(f"{document.place}: expected an object with apiVersion and kind, found a list")
        for at, body in unfolded(document.value, document.place):
            thing = self._object(body, document.file, at)
            if thing is not None:
                yield thing

    def _object(self, body: Any, file: str, at: str) -> Thing | None:
        _kind_given(body, at)
        subject = about(body)
        try:
            kind = _kind(body)
            if kind is None:
                self.ignored[body["kind"]] += 1
                return None
            namespace, name = self._named(kind, body)
            return Thing(kind.name, namespace, name, file, body, kind.read(body))
        except Mistake as mistake:
            where = f"{file}: {subject}" if subject else f"{at}: {body['kind']}"
            raise Mistake(f"{where}: {mistake}") from None

    def _named(self, kind: kinds.Kind, body: kinds.Body) -> tuple[str, str]:
        meta = body.get("metadata")
        if not isinstance(meta, dict):
            raise Mistake(f"metadata: expected an object, found {mistakes.shown(meta)}")
        namespace = (meta.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
        name = meta.get("name") or self._generate(namespace, meta)
        for field, value in (("namespace", namespace), ("name", name)):
            if value != "" and (not isinstance(value, str) or not schema_limits.DNS_SUBDOMAIN.matches(value)):
                raise Mistake(f"metadata.{field}: {mistakes.shown(value)} is not a name")
        return namespace, name

    def _generate(self, namespace: str, meta: kinds.Body) -> str:
        """Make a name as the API server would, but always the same."""
        prefix = meta.get("generateName")
        if not isinstance(prefix, str) or not prefix:
            raise Mistake("metadata.name is missing")
        self.generated[namespace, prefix] += 1
        return f"{prefix}{self.generated[namespace, prefix]}"


def unfolded(body: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Give the objects of a list, and of lists in it; an object stands for itself."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        yield at, body
        return
    items = body.get("items")
    if not isinstance(items, list):
        if _surely_list(body):
            raise Mistake(f"{at}: {kind}: items: expected a list, found {mistakes.shown(items)}")
        yield at, body
        return
    common = (
        {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    )
    for number, item in enumerate(items, start=1):
        whole = {**common, **item} if isinstance(item, dict) else item
        yield from unfolded(whole, f"{at}: item {number}")


def _surely_list(body: kinds.Body) -> bool:
    """Tell a list of objects from an object of a kind whose name happens to end in List."""
    version, of = body.get("apiVersion"), body["kind"].removesuffix("List")
    return not of or (isinstance(version, str) and (version.rpartition("/")[0], of) in kinds.READ)


def about(body: kinds.Body) -> str:
    """Name an object that may be malformed, as far as it can be named."""
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return ""
    kind = kinds.READ.get((_group(body), body["kind"]))
    namespace = meta.get("namespace") or (DEFAULT_NAMESPACE if kind and kind.namespaced else "")
    return f"{body['kind']} {namespace}/{meta['name']}" if namespace else f"{body['kind']} {meta['name']}"


def _kind_given(body: Any, at: str) -> None:
    if not isinstance(body, dict):
        raise Mistake(f"{at}: expected an object, found {mistakes.shown(body)}")
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise Mistake(f"{at}: {field} is missing; it is no Kubernetes object")


def _group(body: kinds.Body) -> str:
    group: str = body["apiVersion"].rpartition("/")[0]
    return group


def _kind(body: kinds.Body) -> kinds.Kind | None:
    """Find the kind of an object; None where it plays no part."""
    kind = kinds.READ.get((_group(body), body["kind"]))
    if kind is None:
        _refuse_template(body)
    elif body["apiVersion"] != kind.version:
        raise Mistake(f"apiVersion {mistakes.shown(body['apiVersion'])} is not known; write {kind.version}")
    return kind


def _refuse_template(body: kinds.Body) -> None:
    meta = body.get("metadata")
    from_cluster = isinstance(meta, dict) and meta.get("uid")
    makes_pods = (_group(body), body["kind"]) in WORKLOADS or _has_template(body.get("spec"))
    if makes_pods and not from_cluster:
        raise Mistake("no controller is at work here; give its pods (kubectl get pods -o yaml prints them)")


def _has_template(spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, dict) else None
    return "jobTemplate" in spec or (isinstance(inner, dict) and "containers" in inner)
