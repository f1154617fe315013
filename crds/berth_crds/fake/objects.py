"""The objects of an API server, by their places. Pure but for uids and times of creation."""

import copy
import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Object = dict[str, Any]
STATUS: Final = "status"
BINDING: Final = "binding"


class Place(NamedTuple):
    """Where an object is, or where all of a kind are: then it has no name."""

    api: str  # Such as api/v1, or apis/berth.dev/v1alpha1.
    plural: str
    namespace: str = ""
    name: str = ""
    sub: str = ""

    @property
    def object(self) -> "Place":
        """The place of the whole object."""
        return self._replace(sub="")

    @property
    def api_version(self) -> str:
        """The `apiVersion` of what is there."""
        return self.api.partition("/")[2]


class StatusError(Exception):
    """What was asked cannot be done; `code` and `reason` are those that a real server answers."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def place_of(path: str) -> Place:
    """Return the place that a path of the API names."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            api = f"api/{version}"
        case ["apis", group, version, *rest]:
            api = f"apis/{group}/{version}"
        case _:
            api, rest = "", []
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # noqa: PLR2004  Else it is a Namespace itself.
        namespace, rest = rest[1], rest[2:]
    match rest:
        case [plural, *names] if len(names) <= 2:  # noqa: PLR2004
            return Place(api, plural, namespace, *names)
    raise StatusError(404, "NotFound", "the server could not find the requested resource")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One change: ADDED, MODIFIED or DELETED, of which object, and at which revision."""

    kind: str
    place: Place
    thing: Object
    revision: int


class Objects:
    """What an API server keeps."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.revision = 1
        self._on_change = on_change
        self._things: dict[Place, Object] = {}
        self._changes: list[Change] = []

    def get(self, place: Place) -> Object:
        """Return an object as it is now."""
        if (thing := self._things.get(place.object)) is None:
            raise StatusError(404, "NotFound", f'{place.plural} "{place.name}" not found')
        return copy.deepcopy(thing)

    def under(self, place: Place) -> Iterator[Object]:
        """Yield the objects of a kind, in the order of their names."""
        for one in sorted(self._things):
            if _is_in(one, place):
                yield copy.deepcopy(self._things[one])

    def changes(self, place: Place, after: int) -> Iterator[Change]:
        """Yield what has changed among the objects of a kind since a revision."""
        return (one for one in self._changes if one.revision > after and _is_in(one.place, place))

    def create(self, place: Place, thing: Object) -> Object:
        """Create an object at the place of its kind."""
        meta = thing.setdefault("metadata", {})
        if not meta.get("name"):
            raise StatusError(422, "Invalid", "metadata.name: Required value")
        where = place._replace(name=meta["name"])
        if where in self._things:
            raise StatusError(409, "AlreadyExists", f'{where.plural} "{where.name}" already exists')
        if where.namespace:
            meta["namespace"] = where.namespace
        meta["uid"] = f"{uuid.uuid4()}"
        meta["creationTimestamp"] = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        meta["generation"] = 1
        return self._keep("ADDED", where, thing)

    def put(self, place: Place, thing: Object) -> Object:
        """Create an object, or replace what is there."""
        if place in self._things:
            return self.replace(place, thing)
        return self.create(place._replace(name=""), thing)

    def replace(self, place: Place, thing: Object) -> Object:
        """Replace an object, or only its status; a resourceVersion that is given must be the current one."""
        now = self.get(place)
        given = thing.get("metadata", {}).get("resourceVersion", "")
        if given not in {"", now["metadata"]["resourceVersion"]}:
            raise _conflict(place)
        if place.sub == STATUS:
            return self._change(place, now, {**now, STATUS: thing.get(STATUS, {})})
        kept = ("uid", "creationTimestamp", "generation", "name", "namespace", "resourceVersion")
        meta = {
            **thing.get("metadata", {}),
            **{key: now["metadata"][key] for key in kept if key in now["metadata"]},
        }
        return self._change(place, now, {**thing, "metadata": meta})

    def patch(self, place: Place, patch: Mapping[str, Any]) -> Object:
        """Merge a patch into an object; lists are replaced, and null removes."""
        now = self.get(place)
        given = (
            patch
            if place.sub != STATUS
            else {key: patch[key] for key in (STATUS, "metadata") if key in patch}
        )
        return self.replace(place, merged(now, given))

    def apply(self, place: Place, thing: Object) -> Object:
        """Create an object, or merge one into what is there; nobody owns fields here."""
        if place.object in self._things:
            return self.patch(place, thing)
        return self.create(place.object._replace(name=""), thing)

    def delete(self, place: Place, uid: str = "") -> Object:
        """Delete an object; with a uid, only that very one."""
        thing = self.get(place)
        if uid and uid != thing["metadata"]["uid"]:
            raise StatusError(409, "Conflict", f"the UID in the precondition ({uid}) is not the object's")
        del self._things[place.object]
        return self._note("DELETED", place.object, thing)

    def bind(self, place: Place, binding: Mapping[str, Any]) -> Object:
        """Bind a pod to a node, with the annotations that the binding has."""
        pod = self.get(place)
        if node := pod.get("spec", {}).get("nodeName"):
            raise StatusError(409, "Conflict", f'pod {place.name} is already assigned to node "{node}"')
        annotations = binding.get("metadata", {}).get("annotations", {})
        bound = {"metadata": {"annotations": annotations}, "spec": {"nodeName": binding["target"]["name"]}}
        return self._change(place, pod, merged(pod, bound))

    def _change(self, place: Place, now: Object, then: Object) -> Object:
        """Keep what an object is from now on; nothing happens where it is that already."""
        if then == now:
            return now
        if then.get("spec") != now.get("spec"):
            then["metadata"] = {**then["metadata"], "generation": now["metadata"].get("generation", 0) + 1}
        return self._keep("MODIFIED", place.object, then)

    def _keep(self, kind: str, place: Place, thing: Object) -> Object:
        self._things[place] = thing
        return self._note(kind, place, thing)

    def _note(self, kind: str, place: Place, thing: Object) -> Object:
        """Note a change at a revision of its own, which is the object's from now on."""
        self.revision += 1
        thing["metadata"]["resourceVersion"] = f"{self.revision}"
        self._changes.append(Change(kind, place, copy.deepcopy(thing), self.revision))
        self._on_change()
        return copy.deepcopy(thing)


def _conflict(place: Place) -> StatusError:
    begin = f'Operation cannot be fulfilled on {place.plural} "{place.name}": the object has been modified; '
    return StatusError(
        409, "Conflict", f"{begin}please apply your changes to the latest version and try again"
    )


def _is_in(one: Place, collection: Place) -> bool:
    same_kind = (one.api, one.plural) == (collection.api, collection.plural)
    return same_kind and collection.namespace in {"", one.namespace}


def merged(old: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a value."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    before = old if isinstance(old, Mapping) else {}
    both = {**before, **{key: merged(before.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in both.items() if patch.get(key, ...) is not None}


def selected(thing: Mapping[str, Any], *, labels: str, fields: str) -> bool:
    """Whether an object is one that selectors ask for: by equality, or by the names of labels."""
    own = thing["metadata"].get("labels", {})
    return all(_holds(term, own.get) for term in _terms(labels)) and all(
        _holds(term, lambda path: _field(thing, path)) for term in _terms(fields)
    )


def _terms(selector: str) -> list[str]:
    return [term.strip() for term in selector.split(",") if term.strip()]


def _holds(term: str, value: Callable[[str], Any]) -> bool:
    if "!=" in term:
        name, _, wanted = term.partition("!=")
        return bool((value(name.strip()) or "") != wanted.strip())
    if "=" in term:
        name, _, wanted = term.partition("=")
        return bool((value(name.strip()) or "") == wanted.lstrip("=").strip())
    if term.startswith("!"):
        return value(term[1:]) is None
    if " " in term:
        raise StatusError(400, "BadRequest", f'the fake server knows no selector like "{term}"')
    return value(term) is not None


def _field(thing: Mapping[str, Any], path: str) -> Any:
    found: Any = thing
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
