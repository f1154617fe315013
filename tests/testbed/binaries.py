"""Finds the programs of a real control plane, and builds those that are missing.

Tests run against the API server that users run, not against a stub, and that must work on a fresh clone
without a container engine. So each program is looked for where people keep such things
(`KUBEBUILDER_ASSETS`, then `PATH`), then in the user's cache, and is otherwise built from pinned Go modules
(`go/go.mod`, `go/go.sum`), once. A program that is found is asked for its version first: last year's
kubectl on the `PATH` is not what the tests are about.

Another program is another line in `PROGRAMS`, and a `tool` line in `go.mod`. A package written as
`path@version` is built by its own `go.mod` instead. The cache is keyed by everything that decides what a
build gives; builds happen under a lock and appear under their name only when they are whole, so that
parallel runs neither build twice nor see half a file.

With `BERTH_KUBERNETES=1.34` Kubernetes' own programs are of that release, by the pins in `go-1.34`.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed import builder

MODULE = Path(__file__).with_name("go")
OTHERS = {path.name.removeprefix("go-"): path for path in MODULE.parent.glob("go-*")}

CONTAINERD = "v2.4.2"
HELM = "v4.3.1"
HELM_3 = "v3.22.0"
KIND = "v0.33.0"

# Where Kubernetes programs keep the version they print, and the one they send as their user agent.
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Program:
    """How to build one program and how to recognise it."""

    package: str
    module: str  # The module whose version the program reports.
    usual_seconds: int  # On two cores, with nothing compiled yet but what the table builds before it.
    probe: tuple[str, ...] = ("--version",)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Where a program is, and why that one."""

    path: Path
    origin: str


class UnknownRelease(Exception):
    """Nothing is pinned for the release that was asked for; the text is a sentence."""


def _kubernetes(name: str, usual_seconds: int, *probe: str) -> Program:
    return Program(
        f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", usual_seconds, probe or ("--version",)
    )


def _containerd(name: str, usual_seconds: int, *probe: str) -> Program:
    module = "github.com/containerd/containerd/v2"
    return Program(f"{module}/cmd/{name}@{CONTAINERD}", module, usual_seconds, probe)


def _helm(version: str) -> Program:
    module = f"helm.sh/helm/{version.partition('.')[0]}"
    stamp = ("-ldflags", f"-s -w -X {module}/internal/version.version={version}")
    return Program(f"{module}/cmd/helm@{version}", module, 90, ("version",), stamp)


PROGRAMS = {
    "etcd": Program("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 40),
    "kube-apiserver": _kubernetes("kube-apiserver", 180),
    "kubectl": _kubernetes("kubectl", 20, "version", "--client"),
    "kube-controller-manager": _kubernetes("kube-controller-manager", 50),
    "kube-scheduler": _kubernetes("kube-scheduler", 5),
    "kubelet": _kubernetes("kubelet", 15),
    "containerd": _containerd("containerd", 50, "--version"),
    "containerd-shim-runc-v2": _containerd("containerd-shim-runc-v2", 5, "-v"),
    "ctr": _containerd("ctr", 5, "--version"),
    "helm": _helm(HELM),
    "helm3": _helm(HELM_3),
    "kind": Program(f"sigs.k8s.io/kind@{KIND}", "sigs.k8s.io/kind", 20, ("version",)),
}


def tell(sentence: str) -> None:
    """Print one line for the person who waits: silence looks like a hang."""
    print(f"testbed: {sentence}", file=sys.stderr, flush=True)


def cache() -> Path:
    """Return the directory for everything that outlives a run."""
    if chosen := os.environ.get("BERTH_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"


def release() -> str:
    """Return the release of Kubernetes that was asked for in place of the usual one, or nothing."""
    asked = os.environ.get("BERTH_KUBERNETES", "")
    if asked and asked not in OTHERS:
        known = ", ".join(sorted(OTHERS))
        raise UnknownRelease(f"BERTH_KUBERNETES is {asked}; there are {known}, and without it the usual one.")
    return asked


def ensure(names: Iterable[str], *, tell: Callable[[str], None] = tell) -> dict[str, Path]:
    """Return the path of each program; build what is missing, or raise `builder.Unavailable`."""
    found = {name: locate(name) for name in names}
    for (origin, directory), reused in _by_place(found).items():
        tell(f"using {', '.join(reused)} {origin}: {directory}")
    if missing := [name for name, place in found.items() if place is None]:
        tell(_why(missing))
    return {name: place.path if place else _build(name, tell) for name, place in found.items()}


def locate(name: str) -> Found | None:
    """Find a program without building it."""
    for origin, directory in _outside():
        pod_info = shutil.which(name, path=directory)
        if pod_info and _is_right(name, Path(pod_info)):
            return Found(Path(pod_info), origin)
    built = cached(name)
    return Found(built, "from the cache") if built.exists() else None


def cached(name: str) -> Path:
    """Return where this checkout's build of a program lies, built or not."""
    program = PROGRAMS[name]
    module = _module(program)
    inputs = [(module / "go.mod").read_bytes(), (module / "go.sum").read_bytes()]
    words = [*flags(program), program.package.partition("@")[2], platform.system(), platform.machine()]
    inputs += [word.encode() for word in words]
    digest = hashlib.sha256(b"\0".join(inputs)).hexdigest()
    return cache() / "bin" / digest[:16] / name


def version(program: Program) -> str:
    """Return the version of a program that the pins ask for, without its `v`."""
    pinned = program.package.partition("@")[2] or _pins(_module(program))[program.module]
    return pinned.removeprefix("v")


def flags(program: Program) -> tuple[str, ...]:
    """Return the flags of `go install`; without the stamps a Kubernetes program would call itself v0.0.0."""
    kubernetes = _pins(_module(program))["k8s.io/kubernetes"]
    major, minor, _patch = kubernetes.removeprefix("v").split(".")
    stamps = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor}
    settings = [f"-X {package}.{key}={value}" for package in STAMPED for key, value in stamps.items()]
    linker = " ".join(["-s -w", *settings])
    return ("-trimpath", "-buildvcs=false", "-ldflags", linker, *program.flags)


def _by_place(found: dict[str, Found | None]) -> dict[tuple[str, Path], list[str]]:
    """Group the names of what was found by where it was found."""
    places: dict[tuple[str, Path], list[str]] = {}
    for name, place in found.items():
        if place:
            places.setdefault((place.origin, place.path.parent), []).append(name)
    return places


def _outside() -> list[tuple[str, str]]:
    """Return the places outside the cache, as (what to call it, directory)."""
    assets = [("from KUBEBUILDER_ASSETS", os.environ.get("KUBEBUILDER_ASSETS", ""))]
    path = [("from PATH", directory) for directory in os.environ.get("PATH", "").split(os.pathsep)]
    return [(origin, directory) for origin, directory in assets + path if directory]


def _is_right(name: str, pod_info: Path) -> bool:
    """Ask a program for its version; another patch of the same minor release is as good as ours."""
    program = PROGRAMS[name]
    try:
        command = [str(pod_info), *program.probe]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    release = ".".join(version(program).split(".")[:2])
    return re.search(rf"\bv?{re.escape(release)}\.\d", result.stdout) is not None


def _why(missing: list[str]) -> str:
    """Return what is built, why, how long that takes, and how it can be spared."""
    minutes = sum(PROGRAMS[name].usual_seconds for name in missing) / 60
    return (
        f"not here yet: {', '.join(missing)}. Berth is tried on what clusters run, which is built from "
        f"source once, into {cache()}; on two cores it takes about {max(1, round(minutes))} min. "
        "To spare it, set KUBEBUILDER_ASSETS to a folder with such programs, or put them on the PATH."
    )


def _build(name: str, tell: Callable[[str], None]) -> Path:
    program = PROGRAMS[name]
    tell(f"{name} {version(program)} is not here; to build it usually takes {program.usual_seconds} s")
    what = (*flags(program), program.package)
    return builder.build(cached(name), what, module=_module(program), cache=cache(), tell=tell)


def _module(program: Program) -> Path:
    """Return the folder of the pins by which a program is built."""
    other = OTHERS.get(release())
    return other if other and program.package in _tools(other) else MODULE


@functools.cache
def _tools(module: Path) -> frozenset[str]:
    """Return the packages for which a module has pins."""
    return frozenset(
        re.findall(r"^(?:\t|tool )(\S+/cmd/\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    )


@functools.cache
def _pins(module: Path) -> dict[str, str]:
    """Return the version of each module that a `go.mod` requires."""
    text = (module / "go.mod").read_text()
    return dict(re.findall(r"^\s*(?:require )?(\S+/\S+) (v\S+)", text, re.MULTILINE))
