"""Loads the types of device that installed packages add, by their entry points in the group `berth.devices`.

An entry point names a `TypeDescription`. One that cannot be used leaves the others alone, and all that Berth
does without it: the pods of a cluster must not wait for the mistake of one maker. Where somebody names the
entry points that a program is to use, though, each is needed, and the program does not start without it.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from berth_crds import aliases, device_types, flags, names, schema_limits
from berth_crds.text import cause, line, quoted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "berth.devices"
FLAG: Final = "device-packages"
HELP: Final = (
    f"packages that add types of device, by their entry points in the group {GROUP}: all that are installed"
    " and can be used, none, or names by commas, without which the program does not start"
)
ALL: Final = "all"
NONE: Final = "none"
Choice = tuple[str, ...]  # Of entry points by name; `ALL` alone stands for whatever there is.
USUAL: Final[Choice] = (ALL,)

LONGEST_NAME: Final = 40  # It stands in keys of annotations, which Kubernetes bounds.
LONGEST_WORDS: Final = 80
MOST_ADDED: Final = 16  # All of them are asked for in turn, and each tick.
# What stands beside the name of a type in keys of annotations, and what else is counted in sentences.
RESERVED: Final = frozenset({"gpu", "uuids", "minors", "memory", "core", "mig", "cards", "replicas"})
FUNCTIONS: Final = "-vfs"
BUILT_IN_TAINT_PREFIX: Final = ("kubernetes.io/", "k8s.io/")
_LISTS: Final = ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt")


def choice(text: str) -> Choice:
    """Return which entry points a text chooses."""
    found = tuple(dict.fromkeys(name for name in map(str.strip, text.split(",")) if name))
    if not found or (len(found) > 1 and {ALL, NONE} & {*found}):
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is neither {ALL} nor {NONE} nor names of entry points"
        )
    return () if found == (NONE,) else found


def load(wanted: Choice) -> tuple[str, ...]:
    """Add the types that are wanted, and return a sentence for each that cannot be used.

    Raise a usage error where one that cannot be used is wanted by its name.
    """
    if not wanted or (wanted == USUAL and not _any_installed()):
        return ()
    # Not at the top: this takes memory that an agent without such packages has no other use for.
    from importlib import metadata  # noqa: PLC0415

    found = sorted(metadata.entry_points(group=GROUP), key=lambda one: (one.name, one.value))
    chosen = [one for one in found if wanted == USUAL or one.name in wanted]
    faults = tuple(filter(None, map(_add, chosen)))
    if wanted == USUAL:
        return faults
    if faults:
        raise flags.UsageError(f"--{FLAG}: {faults[0]}")
    if missing := [name for name in wanted if name not in {one.name for one in chosen}]:
        raise flags.UsageError(
            f"--{FLAG}: no installed package has an entry point {quoted(missing[0])} in {GROUP}."
        )
    return ()


def _any_installed() -> bool:
    """Whether an installed package lists such an entry point."""
    folders = (Path(entry or ".") for entry in dict.fromkeys(sys.path))
    return any(
        f"[{GROUP}]" in _text(file) for folder in folders for each in _LISTS for file in folder.glob(each)
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _add(entry_point: "EntryPoint") -> str:
    """Add a type, and return a sentence if that cannot be."""
    try:
        found = entry_point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a module raises
        why = f"{type(error).__name__}: {cause(error)}"
    else:
        why = fault(found)
        if not why:
            device_types.add(found)
            return ""
    of = entry_point.dist.name if entry_point.dist else entry_point.value
    return line(f"The type of device {entry_point.name} of the package {of} is not used: {why}.")


# ---------------------------------------------------------------- whether a type goes with the others


def fault(found: object) -> str:
    """Return what is wrong with the description of a further type, as a clause; empty for nothing."""
    if not isinstance(found, device_types.TypeDescription):
        return f"its entry point is no TypeDescription but {quoted(type(found).__name__)}"
    return next(filter(None, _faults(found)), "")


def _faults(found: device_types.TypeDescription) -> Iterator[str]:
    texts = found.name, found.resource, found.singular, found.plural
    if not all(isinstance(text, str) for text in texts):
        yield "its name, resource, singular and plural are not all texts"
        return
    yield _of_name(found.name)
    yield _of_resource(found.resource)
    if any(line(words, most=LONGEST_WORDS) != words for words in texts[2:]):
        yield f"its singular or plural is no line of at most {LONGEST_WORDS} characters"
    if not isinstance(found.shared, bool):
        yield "its field shared is neither True nor False"
    if found.source is not None and not callable(found.source):
        yield "its source cannot be called"
    if len(device_types.BY_NAME) - len(device_types.BUILT_IN) >= MOST_ADDED:
        yield f"{MOST_ADDED} types are added already, which is the most"


def _of_name(name: str) -> str:
    if not schema_limits.DNS_LABEL.matches(name) or len(name) > LONGEST_NAME:
        return (
            f"the name {quoted(name, most=LONGEST_NAME)} is not of at most {LONGEST_NAME} lowercase letters, "
            f"digits and '-'"
        )
    if name in RESERVED or name.endswith(FUNCTIONS):
        return f"the name {quoted(name)} has another meaning in Berth"
    if name in device_types.BY_NAME:
        return f"the name {quoted(name)} is that of another type already"
    # A uuid begins with the type and a hyphen, so one of `npu-x` would look like one of `npu`.
    near = (
        one for one in device_types.BY_NAME if f"{one}-".startswith(f"{name}-") or name.startswith(f"{one}-")
    )
    other = next(near, "")
    return (
        f"the uuids of {quoted(name)} and of the type {quoted(other)} could not be told apart"
        if other
        else ""
    )


def _of_resource(resource: str) -> str:
    prefix, slash, name = resource.partition("/")
    if (
        not slash
        or not schema_limits.DNS_SUBDOMAIN.matches(prefix)
        or not schema_limits.LABEL_NAME.matches(name)
    ):
        return f"the resource {quoted(resource, most=LONGEST_WORDS)} is not like example.com/npu"
    if prefix == names.GROUP or f"{prefix}/".endswith(BUILT_IN_TAINT_PREFIX):
        return f"the resource {quoted(resource)} is under a name that is not the package's own"
    if resource in device_types.BY_RESOURCE:
        return f"the resource {quoted(resource)} is that of another type already"
    return (
        f"the resource {quoted(resource)} has another meaning in Berth" if aliases.is_served(resource) else ""
    )
