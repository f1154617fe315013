"""The taint of silent agents over a fleet: who gets it and loses it, with how many writes, and who never."""

import dataclasses
import json
from typing import Any, cast

import pytest

from berth_crds import wire
from berth_crds.client import api, errors
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube.agent_taint_writer import TAINT, AgentTaintWriter
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import nodes, raw
from kube import servers
from support import builders, clock

GRACE, UNKNOWN = 40, 20
REPORT = 10  # Seconds between two renewals of an agent.
ASKS = dataclasses.replace(Policy(), taint_silent=True)


class Cluster:
    """Nodes whose agents renew their Leases until they are killed, and a server that keeps the taints."""

    def __init__(self, count: int, policy: Policy = ASKS) -> None:
        self.clock = clock.Clock()
        self.names = [f"n{at:04}" for at in range(count)]
        self.alive = set(self.names)
        self.taints: dict[str, list[dict[str, str]]] = {name: [] for name in self.names}
        self.renewals = dict.fromkeys(self.names, "0")
        self.found_silent: set[str] = set()
        self.writes = 0
        self.start(policy)

    def start(self, policy: Policy) -> None:
        """Start an operator, which knows what the API says."""
        self.ledger = Ledger(self.clock)
        self.ledger.policy_seen(policy)
        self.watchdog = Watchdog(self.ledger, clock=self.clock)
        for name in self.names:
            self.show(name)
            self.ledger.device_seen(builders.device(name, 1))
            self.watchdog.device_seen(name, found_silent=name in self.found_silent)
            self.watchdog.lease_seen(name, self.renewals[name])
        self.writer = AgentTaintWriter(
            cast(api.Api, self),
            self.ledger,
            servers.unlimited(),
            clock=self.clock,
            state_of=self.watchdog.known_state,
        )

    def show(self, name: str) -> None:
        """Have the ledger see a Node as it is."""
        taints = tuple(
            raw.Taint(one["key"], one.get("value", ""), one["effect"]) for one in self.taints[name]
        )
        seen = raw.Node(wire.Meta(name=name), raw.NodeSpec(taints=taints or None))
        self.ledger.node_seen(nodes.read(seen))

    async def send(self, _method: str, path: str, *, body: bytes, **_: Any) -> bytes:
        """Apply a JSON Patch as a server does, and show what came of it."""
        name = path.rpartition("/")[2]
        self.writes += 1
        self.taints[name] = patched(self.taints[name], json.loads(body))
        self.show(name)
        return b"{}"

    async def passes(self, seconds: int) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.clock.advance(1)
            now = int(self.clock())
            for name in self.alive.intersection(self.names[now % REPORT :: REPORT]):
                self.renewals[name] = f"{now}"
                self.watchdog.lease_seen(name, f"{now}")
            self.watchdog.judge()
            await self.writer.catch_up()

    def tainted(self) -> set[str]:
        """Return the nodes that have the taint."""
        return {name for name, taints in self.taints.items() if TAINT in taints}


def patched(taints: list[dict[str, str]], operations: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return what a JSON Patch makes of taints, or raise as the server does."""
    found: Any = {"taints": [*taints]} if taints else {}
    for one in operations:
        match one["op"], one["path"].split("/")[3:]:
            case "test", [] if found.get("taints") != one["value"]:
                raise errors.Invalid(422, "test failed")
            case "test", [at, field] if found["taints"][int(at)].get(field) != one["value"]:
                raise errors.Invalid(422, "test failed")
            case "add", []:
                found["taints"] = one["value"]
            case "add", ["-"]:
                found["taints"].append(one["value"])
            case "remove", [at]:
                del found["taints"][int(at)]
    return list(found.get("taints", []))


async def test_the_timeline_of_a_death() -> None:
    """Tainted when the agent counts as silent, and not at the first sign of life: two writes."""
    cluster = Cluster(10)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")

    await cluster.passes(GRACE + UNKNOWN - REPORT)
    assert (cluster.tainted(), cluster.writes) == (set(), 0)
    await cluster.passes(REPORT + 1)
    assert (cluster.tainted(), cluster.writes) == ({"n0003"}, 1)
    await cluster.passes(1000)
    assert cluster.writes == 1
    cluster.alive.add("n0003")
    await cluster.passes(REPORT)
    assert (cluster.tainted(), cluster.writes) == (set(), 2)


async def test_many_that_die_are_all_tainted_within_one_period() -> None:
    """Two hundred of a thousand, each with one write."""
    cluster = Cluster(1000)
    await cluster.passes(REPORT)
    killed = set(cluster.names[:200])
    cluster.alive -= killed

    await cluster.passes(GRACE + UNKNOWN + 1)

    assert (cluster.tainted(), cluster.writes) == (killed, 200)


async def test_of_a_mass_silence_nothing_is_written() -> None:
    """No Node is tainted, and one that was stays so; those that are still away when it is over are."""
    cluster = Cluster(1000)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)
    cluster.alive.clear()

    await cluster.passes(500)
    assert (cluster.tainted(), cluster.writes) == ({"n0003"}, 1)
    cluster.alive = set(cluster.names[:900]) - {"n0003"}
    await cluster.passes(GRACE + UNKNOWN)
    assert cluster.tainted() == {"n0003", *cluster.names[900:]}
    assert cluster.writes == 101


@pytest.mark.parametrize("recorded", [True, False], ids=["the Device says so", "no Device says so"])
async def test_a_restart_neither_adds_nor_removes(recorded: bool) -> None:  # noqa: FBT001
    """An old Lease of a dead agent is no sign of life, whether the Device was written or not."""
    cluster = Cluster(10)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)
    cluster.found_silent = {"n0003"} if recorded else set()

    cluster.start(ASKS)
    await cluster.passes(1000)
    assert (cluster.tainted(), cluster.writes) == ({"n0003"}, 1)

    cluster.alive.add("n0003")
    await cluster.passes(REPORT)
    assert cluster.tainted() == set()


async def test_an_agent_that_came_back_while_nobody_led_is_found() -> None:
    """With its second renewal that the new operator sees, the taint goes."""
    cluster = Cluster(10)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)
    cluster.alive.add("n0003")
    cluster.renewals["n0003"] = "unseen"

    cluster.start(ASKS)
    await cluster.passes(1)
    assert cluster.tainted() == {"n0003"}
    await cluster.passes(REPORT)

    assert (cluster.tainted(), cluster.writes) == (set(), 2)


@pytest.mark.parametrize("mass", [False, True], ids=["one is silent", "all are"])
async def test_a_policy_takes_it_away_again(mass: bool) -> None:  # noqa: FBT001
    """At once, whatever is known of the agents; and by default no Node gets it."""
    cluster = Cluster(10, Policy())
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)
    assert cluster.tainted() == set()

    cluster.ledger.policy_seen(ASKS)
    await cluster.passes(1)
    assert cluster.tainted() == {"n0003"}
    if mass:
        cluster.alive.clear()
        await cluster.passes(GRACE + 1)
    cluster.ledger.policy_seen(Policy())
    await cluster.passes(1)

    assert (cluster.tainted(), cluster.writes) == (set(), 2)


async def test_it_goes_with_the_device() -> None:
    """A node of which nobody says any more that it has cards is no concern of Berth's."""
    cluster = Cluster(10)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)

    cluster.watchdog.device_gone("n0003")
    cluster.ledger.device_gone("n0003")
    await cluster.passes(1)

    assert (cluster.tainted(), cluster.writes) == (set(), 2)


async def test_no_taint_of_others_is_touched() -> None:
    """It is put beside them and taken from among them, and one of the same key and another effect stays."""
    others = [{"key": "a", "value": "b", "effect": "NoSchedule"}, TAINT | {"effect": "NoExecute"}]
    cluster = Cluster(10)
    cluster.taints["n0003"] = [*others]
    cluster.show("n0003")
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    await cluster.passes(GRACE + UNKNOWN + 1)
    assert cluster.taints["n0003"] == [*others, TAINT]

    cluster.taints["n0003"].append({"key": "c", "effect": "NoExecute"})
    cluster.show("n0003")
    cluster.alive.add("n0003")
    await cluster.passes(REPORT)

    assert cluster.taints["n0003"] == [*others, {"key": "c", "effect": "NoExecute"}]


async def test_taints_that_changed_meanwhile_are_not_lost() -> None:
    """The write is refused, and another follows once the watch has shown the change."""
    cluster = Cluster(10)
    await cluster.passes(REPORT)
    cluster.alive.remove("n0003")
    cluster.taints["n0003"] = [{"key": "a", "effect": "NoExecute"}]  # Which the watch has not shown yet.
    await cluster.passes(GRACE + UNKNOWN + 1)
    assert cluster.taints["n0003"] == [{"key": "a", "effect": "NoExecute"}]

    cluster.show("n0003")
    await cluster.passes(20)

    assert cluster.taints["n0003"] == [{"key": "a", "effect": "NoExecute"}, TAINT]


async def test_berths_own_pods_do_not_wait_for_its_removal() -> None:
    """The ledger knows sooner whether the agent is back, so the taint keeps nobody away there."""
    cluster = Cluster(1)
    cluster.taints["n0000"] = [TAINT, {"key": "a", "effect": "NoSchedule"}]
    cluster.show("n0000")

    known = cluster.ledger.inventory.node("n0000")

    assert known is not None and known.node is not None
    assert [one.key for one in known.node.taints] == ["a"]
