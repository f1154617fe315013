"""Operators that serve the webhook, and an API server that asks one of them, beside the policies."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from berth_crds import names
from berth_crds.client import errors
from berth_operator.admission import certificate_keeper
from e2e.stage import Stage
from support import manifests
from testbed import ports, processes

WEBHOOK: Final = Path(__file__).resolve().parents[2] / "manifests" / "webhook"
SCHEDULER: Final = "asks-the-webhook"  # The policies know nothing of it.
LABEL: Final = {"test.berth.dev/webhook": "true"}


def configuration(port: int) -> str:
    """Return what the project ships, for a URL of this machine and a scheduler that no policy knows."""
    found, _ = yaml.safe_load_all((WEBHOOK / "configuration.yaml").read_text())
    for one in found["webhooks"]:
        path = one["clientConfig"].pop("service")["path"]
        one["clientConfig"]["url"] = f"https://localhost:{port}{path}"
        if "namespaceSelector" in one:
            one["namespaceSelector"] = {"matchLabels": LABEL}
        for condition in one["matchConditions"]:
            condition["expression"] = condition["expression"].replace(names.SCHEDULER_NAME, SCHEDULER)
    return yaml.safe_dump(found)


class Replicas:
    """Two operators that serve the webhook, of which the API server asks one."""

    def __init__(self, stage: Stage, *flags: str) -> None:
        self.stage = stage
        self._flags = flags
        self.ports = [ports.free() for _ in range(2)]
        self.programs: list[processes.Program] = []
        self._numbers = itertools.count()

    async def start(self) -> None:
        """Start both, and wait until each shows a certificate that the API server trusts."""
        self.ask(0)
        for port in self.ports:
            self.programs.append(self.stage.operator("--listen-webhook", f"127.0.0.1:{port}", *self._flags))
        for program in self.programs:
            await self.stage.says(program, "the webhook shows its certificate")
        await self.stage.until("the API server to trust the webhook", self.answers)

    def ask(self, number: int) -> None:
        """Have the API server ask this replica; what the operator wrote stays, as with `kubectl apply`."""
        self.stage.cluster.apply(configuration(self.ports[number]))

    async def answers(self) -> bool:
        """Whether a pod can be made."""
        return not await self.refusal()

    async def refusal(self) -> str:
        """Make a pod, and return why that cannot be."""
        try:
            await self.stage.create(manifests.pod(f"p-{next(self._numbers)}", 0, schedulerName=SCHEDULER))
        except errors.ApiError as error:
            return str(error)
        return ""


@contextlib.contextmanager
def installed(stage: Stage) -> Iterator[Stage]:
    """Yield a stage with the rights and the Secret that the project ships for the webhook."""
    stage.cluster.apply(WEBHOOK / "rbac.yaml")
    yield stage
    stage.cluster.kubectl("delete", "-f", str(WEBHOOK / "rbac.yaml"))
    stage.cluster.kubectl("delete", "mutatingwebhookconfiguration", certificate_keeper.CONFIGURATION)
