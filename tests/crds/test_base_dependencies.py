"""What `pip install berth` brings is enough for the client of Berth's kinds, and for its server in memory."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What a dependency is called when it is imported, where that differs.
MODULES: Final = {
    "pyyaml": "yaml",
    "google-re2": "re2",
    "nvidia-ml-py": "pynvml",
    "grpcio": "grpc",
    "kubernetes-asyncio": "kubernetes_asyncio",
    "prometheus-client": "prometheus_client",
}
PROGRAM: Final = """
import importlib, pkgutil, sys


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(name)
        return None


sys.meta_path.insert(0, Refusing())
package = importlib.import_module({package!r})
names = [{package!r}, *(one.name for one in pkgutil.walk_packages(package.__path__, {package!r} + "."))]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def modules(requirements: list[str]) -> set[str]:
    """Return what the requirements are called when they are imported."""
    found = {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}
    return {MODULES.get(name, name) for name in found}


BASE: Final = modules(PROJECT["dependencies"])
EXTRA: Final = (
    set().union(*(modules(PROJECT["optional-dependencies"][one]) for one in ("operator", "agent"))) - BASE
)


def run(package: str, refused: set[str]) -> subprocess.CompletedProcess[str]:
    """Import all modules of a package where some others cannot be."""
    program = PROGRAM.format(package=package, refused=refused)
    environment = {"PYTHONPATH": f"{ROOT / 'crds'}"}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize("package", ["berth_crds.client", "berth_crds.fake"])
def test_the_client_needs_nothing_of_the_programs(package: str) -> None:
    """Each of its modules is there where nothing of the extras is."""
    made = run(package, EXTRA | {"berth_operator", "berth_agent"})

    assert made.returncode == 0, made.stderr
    assert int(made.stdout) > 1


def test_the_models_need_an_extra() -> None:
    """So what is refused above is really away: they need pydantic, which comes with the operator."""
    assert {"aiohttp", "aiohappyeyeballs", "msgspec", "yaml"} == BASE
    assert {"pydantic", "kopf", "numpy", "pynvml", "grpc"} <= EXTRA
    made = run("berth_crds", EXTRA)

    assert "ModuleNotFoundError: pydantic" in made.stderr
