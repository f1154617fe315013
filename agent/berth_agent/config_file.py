"""The configuration file of NVIDIA's device plugin (version v1), read as texts of the agent's flags.

Its keys are NVIDIA's, so that a file that was written for that plugin carries over. A flag wins over its
variable, that over the file, and the file over the default. What the file says of things that the agent does
not have is not an error, but it is named, so that nobody takes it for granted.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from berth_crds import flags, names, vocabulary
from berth_crds.text import quoted

VERSION: Final = "v1"
FLAGS_BY_KEY: Final = {
    "flags.migStrategy": "mig-strategy",
    "flags.failOnInitError": "fail-on-init-error",
    "flags.mpsRoot": "mps-root",
    "flags.nvidiaDriverRoot": "nvidia-driver-root",
    "flags.nvidiaDevRoot": "nvidia-dev-root",
    "flags.plugin.containerDriverRoot": "driver-root-ctr-path",
    "flags.plugin.passDeviceSpecs": "pass-device-specs",
    "flags.plugin.deviceListStrategy": "device-list-strategy",
    "flags.plugin.deviceIDStrategy": "device-id-strategy",
    "flags.plugin.cdiAnnotationPrefix": "cdi-annotation-prefix",
    "flags.plugin.sharedDevicesAllocationPolicy": "shared-devices-allocation-policy",
}
# In the order in which they count: of two the first one rules, as in NVIDIA's plugin.
SHARING_KEYS: Final = {
    "mps": vocabulary.SharingStrategy.MPS,
    "timeSlicing": vocabulary.SharingStrategy.TIME_SLICING,
}
SHARED_NAMES: Final = frozenset({names.NVIDIA_GPU, names.NVIDIA_GPU.rpartition("/")[2]})
EVERY_DEVICE: Final = "all"

Tree = Mapping[str, Any]


class Config(NamedTuple):
    """Texts by the flag that they are for, and the keys of the file that no flag is for."""

    texts: Mapping[str, flags.SourcedText] = {}
    unused: tuple[str, ...] = ()


NONE: Final = Config()


def read(path: Path) -> Config:
    """Return what a file says, or raise a usage error that names the file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise flags.UsageError(f"The configuration file {path} cannot be read: {error}.") from error
    return parse(text, f"{path}")


def parse(text: str, place: str) -> Config:
    """Return what the text of a file says, or raise a usage error that names the place of the file."""
    try:
        return _config(_tree(text), place)
    except _WrongValue as fault:
        raise flags.UsageError(f"{place}: {fault}.") from fault


class _WrongValue(Exception):
    """Something in the file cannot be used; the text says what, without the file and without a full stop."""


def _tree(text: str) -> Tree:
    # Not at the top: it takes memory that an agent without such a file has no use for.
    import yaml  # noqa: PLC0415

    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise _WrongValue(f"is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return _section(tree, "the file")


def _section(value: Any, key: str) -> Tree:
    """Return a section of the file; an empty one has no keys."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _WrongValue(f"{key} is {quoted(str(value))}, and not a section with keys")
    return {str(name): entry for name, entry in value.items()}


def _config(tree: Tree, place: str) -> Config:
    version = tree.get("version") or VERSION
    if version != VERSION:
        raise _WrongValue(f"version is {quoted(str(version))}, and only {VERSION} is known")
    used, unused = {}, []
    rest = {name: value for name, value in tree.items() if name not in {"version", "sharing"}}
    for key, value in _leaves(rest):
        if key in FLAGS_BY_KEY:
            used[FLAGS_BY_KEY[key]] = _sourced(_text(value, key), place, key)
        else:
            unused.append(key)
    sharing = _section(tree.get("sharing"), "sharing")
    unused += (f"sharing.{name}" for name in sharing if name not in SHARING_KEYS)
    present = [name for name in SHARING_KEYS if sharing.get(name) is not None]
    unused += (f"sharing.{name}" for name in present[1:])
    for name in present[:1]:
        key = f"sharing.{name}"
        section = _section(sharing[name], key)
        used |= {flag: _sourced(text, place, key) for flag, text in _sharing_texts(section, name)}
        unused += _unused_of_sharing(section, key)
    return Config(used, tuple(unused))


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no section, under its whole key; a null counts as not written."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _leaves(_section(value, key), f"{key}.")
        elif value is not None:
            yield key, value


def _text(value: Any, key: str) -> str:
    """Return a value as one would write it behind its flag."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    raise _WrongValue(
        f"{key} is {quoted(str(value))}, and neither a text nor a list of texts nor true or false"
    )


def _sourced(text: str, place: str, key: str) -> flags.SourcedText:
    return flags.SourcedText(text, f"{place}: {key}")


# ---------------------------------------------------------------- how cards are shared


def _sharing_texts(section: Tree, name: str) -> Iterator[tuple[str, str]]:
    """Yield the flags of a section on sharing, with their texts."""
    key, strategy = f"sharing.{name}", SHARING_KEYS[name]
    yield "sharing", f"{strategy}:{_replicas(section.get('resources'), f'{key}.resources')}"
    yield "rename-shared", _truth(section, "renameByDefault", key, usual=False)
    usual = strategy == vocabulary.SharingStrategy.MPS
    yield "fail-requests-greater-than-one", _truth(section, "failRequestsGreaterThanOne", key, usual=usual)


def _truth(section: Tree, name: str, key: str, *, usual: bool) -> str:
    value = section.get(name)
    if value is not None and not isinstance(value, bool):
        raise _WrongValue(f"{key}.{name} is {quoted(str(value))}, and neither true nor false")
    return str(usual if value is None else value).lower()


def _replicas(resources: Any, key: str) -> int:
    """Return how many replicas each card has by the one entry on nvidia.com/gpu."""
    if not isinstance(resources, list) or not resources:
        raise _WrongValue(f"{key} lists no resource")
    entries = [_section(entry, f"{key}[{at}]") for at, entry in enumerate(resources)]
    for at, entry in enumerate(entries):
        if entry.get("name") not in SHARED_NAMES:
            raise _WrongValue(
                f"{key}[{at}].name is {quoted(str(entry.get('name')))}: only {names.NVIDIA_GPU} is shared,"
                " as MIG instances are given out whole"
            )
    if len(entries) > 1:
        raise _WrongValue(f"{key} names {names.NVIDIA_GPU} twice")
    replicas = entries[0].get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise _WrongValue(f"{key}[0].replicas is {quoted(str(replicas))}, and not a number")
    return replicas


def _unused_of_sharing(section: Tree, key: str) -> Iterator[str]:
    """Yield what is not obeyed, as in NVIDIA's plugin: names of one's own, and sharing of some cards only."""
    known = {"resources", "renameByDefault", "failRequestsGreaterThanOne"}
    yield from (f"{key}.{name}" for name in section if name not in known)
    for at, entry in enumerate(section["resources"]):
        for name, value in entry.items():
            if name not in {"name", "replicas"} and not (name == "devices" and value == EVERY_DEVICE):
                yield f"{key}.resources[{at}].{name}"
