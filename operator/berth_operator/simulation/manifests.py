"""Manifests from documents: lists are expanded, and each object is read by its kind.

Objects of kinds that do not matter for placement are counted and ignored, so that whole dumps of a
namespace or of a cluster can be read. Workloads, from which a controller would create pods, are
refused if they were written by hand, with a hint how to get the pods, because there is no
controller here. Those from a cluster are ignored: the dump has their pods.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from berth_crds import schema_limits
from berth_operator.simulation import files, input_errors, kinds
from berth_operator.simulation.input_errors import InputError

DEFAULT_NAMESPACE = "default"
Key = tuple[str, str, str]  # Kind, namespace and name.
WORKLOADS: Final = frozenset(
    {
        ("", "ReplicationController"),
        *(("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
        *(("batch", kind) for kind in ("CronJob", "Job")),
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """One object: its names, its file, its body as written and its value as read."""

    kind: str
    namespace: str
    name: str
    file: str
    body: kinds.Body
    value: Any

    @property
    def key(self) -> Key:
        """The key, which no two objects may share."""
        return self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """The name, after the namespace if there is one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def error(self, what: str) -> InputError:
        """Return an error that names this object."""
        return InputError(f"{self.file}: {self.kind} {self.title}: {what}")


def pod_key(title: str) -> Key:
    """Read `namespace/name`, or a name in the namespace `default`."""
    namespace, slash, name = title.partition("/")
    return "Pod", *((namespace, name) if slash else (DEFAULT_NAMESPACE, namespace))


@dataclasses.dataclass(slots=True)
class ManifestReader:
    """Reads documents, and counts the objects that it ignored and the names that it generated."""

    ignored: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    generated: collections.Counter[tuple[str, str]] = dataclasses.field(default_factory=collections.Counter)

    def read(self, documents: Iterable[files.Document]) -> Iterator[Manifest]:
        """Yield all objects of these documents, in order."""
        for document in documents:
            if isinstance(document.value, list):
                raise InputError(
                    f"{document.place}: expected an object with apiVersion and kind, found a list"
                )
            for place, body in expanded(document.value, document.place):
                if (manifest := self._object(body, document.file, place)) is not None:
                    yield manifest

    def _object(self, body: Any, file: str, place: str) -> Manifest | None:
        _check_kind(body, place)
        subject = description(body)
        try:
            if (kind := _kind(body)) is None:
                self.ignored[body["kind"]] += 1
                return None
            namespace, name = self._named(kind, body)
            return Manifest(kind.name, namespace, name, file, body, kind.read(body))
        except InputError as error:
            where = f"{file}: {subject}" if subject else f"{place}: {body['kind']}"
            raise InputError(f"{where}: {error}") from None

    def _named(self, kind: kinds.Kind, body: kinds.Body) -> tuple[str, str]:
        meta = body.get("metadata")
        if not isinstance(meta, dict):
            raise InputError(f"metadata: expected an object, found {input_errors.shown(meta)}")
        namespace = (meta.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
        name = meta.get("name") or self._generate(namespace, meta)
        for field, value in (("namespace", namespace), ("name", name)):
            if value != "" and (not isinstance(value, str) or not schema_limits.DNS_SUBDOMAIN.matches(value)):
                raise InputError(f"metadata.{field}: {input_errors.shown(value)} is not a name")
        return namespace, name

    def _generate(self, namespace: str, meta: kinds.Body) -> str:
        """Return a generated name as the API server would, but the same in every run."""
        prefix = meta.get("generateName")
        if not isinstance(prefix, str) or not prefix:
            raise InputError("metadata.name is missing")
        self.generated[namespace, prefix] += 1
        return f"{prefix}{self.generated[namespace, prefix]}"


def expanded(body: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a list, and of lists in it; any other object as it is."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        yield place, body
        return
    items = body.get("items")
    if not isinstance(items, list):
        if _surely_list(body):
            raise InputError(f"{place}: {kind}: items: expected a list, found {input_errors.shown(items)}")
        yield place, body
        return
    common = (
        {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    )
    for number, item in enumerate(items, start=1):
        whole = {**common, **item} if isinstance(item, dict) else item
        yield from expanded(whole, f"{place}: item {number}")


def _surely_list(body: kinds.Body) -> bool:
    """Whether an object is a list, rather than of a kind whose name happens to end in List."""
    version, of = body.get("apiVersion"), body["kind"].removesuffix("List")
    return not of or (isinstance(version, str) and (kinds.group(version), of) in kinds.BY_GROUP_AND_NAME)


def description(body: kinds.Body) -> str:
    """Return kind and name of an object that may be malformed; empty if it has no name."""
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return ""
    kind = kinds.BY_GROUP_AND_NAME.get((kinds.group(body["apiVersion"]), body["kind"]))
    namespace = meta.get("namespace") or (DEFAULT_NAMESPACE if kind and kind.namespaced else "")
    return f"{body['kind']} {namespace}/{meta['name']}" if namespace else f"{body['kind']} {meta['name']}"


def _check_kind(body: Any, place: str) -> None:
    if not isinstance(body, dict):
        raise InputError(f"{place}: expected an object, found {input_errors.shown(body)}")
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise InputError(f"{place}: {field} is missing; it is no Kubernetes object")


def _kind(body: kinds.Body) -> kinds.Kind | None:
    """Return the kind of an object; None if it does not matter for placement."""
    kind = kinds.BY_GROUP_AND_NAME.get((kinds.group(body["apiVersion"]), body["kind"]))
    if kind is None:
        _refuse_workload(body)
    elif body["apiVersion"] != kind.version:
        raise InputError(
            f"apiVersion {input_errors.shown(body['apiVersion'])} is not known; write {kind.version}"
        )
    return kind


def _refuse_workload(body: kinds.Body) -> None:
    meta = body.get("metadata")
    from_cluster = isinstance(meta, dict) and meta.get("uid")
    kind = kinds.group(body["apiVersion"]), body["kind"]
    makes_pods = kind in WORKLOADS or _has_template(body.get("spec"))
    if makes_pods and not from_cluster:
        raise InputError(
            "no controller is at work here; give its pods (kubectl get pods -o yaml prints them)"
        )


def _has_template(spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, dict) else None
    return "jobTemplate" in spec or (isinstance(inner, dict) and "containers" in inner)
