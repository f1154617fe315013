"""When the silence of agents is reported: after a time, once, and not while most are silent together."""

import functools
from collections.abc import Iterable

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.scheduling import liveness
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.policy import Policy
from support import builders, clock

GRACE, UNKNOWN = 40, 20
REPORT = 10  # Seconds between two renewals of an agent.


class Fleet:
    """Nodes whose agents renew their Leases until they are killed, and what would be written of them."""

    def __init__(self, count: int, *, dead: bool = False, found_silent: int = 0) -> None:
        """Begin with agents that live or are dead; of the first ones the Device says that they are silent."""
        self.clock = clock.Clock()
        self.ledger = Ledger(self.clock)
        self.watchdog = Watchdog(self.ledger, clock=self.clock)
        self.names = [f"n{at:04}" for at in range(count)]
        self.alive = set[str]() if dead else set(self.names)
        self.written: dict[str, bool] = {}  # Whether a node's agent is reported as silent.
        self.writes = 0
        self.changes = self.ledger.changes.reader()
        for name in self.names:
            self.ledger.node_seen(builders.node(name))
            self.ledger.device_seen(builders.device(name, 1))
            self.watchdog.device_seen(name, found_silent=name in self.names[:found_silent])
        self.passes(REPORT)
        self.writes = 0

    def passes(self, seconds: int) -> None:
        """Let time pass, second by second, and write what summaries say."""
        for _ in range(seconds):
            self.clock.advance(1)
            now = int(self.clock())
            for name in self.alive.intersection(self.names[now % REPORT :: REPORT]):
                self.watchdog.lease_seen(name, f"{now}")
            self.watchdog.judge()
            changed = self.changes.read()
            for one in node_summaries.summarize(
                self.ledger.inventory, set(self.names) if changed is None else changed
            ):
                if self.written.get(one.node) is not one.silent:
                    self.written[one.node] = one.silent
                    self.writes += 1

    def open(self) -> set[str]:
        """Return the nodes that get new pods."""
        return {info.name for info in self.ledger.inventory.each() if info.in_service}

    def silent(self) -> set[str]:
        """Return the nodes whose agents are reported as silent."""
        return {name for name, silent in self.written.items() if silent}


def test_the_timeline_of_a_death() -> None:
    """Closed after the grace period, reported after the next, open at the first sign of life: two writes."""
    fleet = Fleet(10)
    fleet.alive.remove("n0003")

    fleet.passes(GRACE - REPORT)
    assert (len(fleet.open()), fleet.writes) == (10, 0)
    fleet.passes(REPORT + 1)
    assert (len(fleet.open()), fleet.writes) == (9, 0)
    fleet.passes(UNKNOWN)
    assert (fleet.silent(), fleet.writes) == ({"n0003"}, 1)
    fleet.passes(1000)
    assert fleet.writes == 1
    fleet.alive.add("n0003")
    fleet.passes(REPORT)
    assert (len(fleet.open()), fleet.silent(), fleet.writes) == (10, set(), 2)


def test_a_short_silence_is_not_reported() -> None:
    """It costs the node new pods, and no write."""
    fleet = Fleet(10)
    fleet.alive.remove("n0003")
    fleet.passes(GRACE + UNKNOWN // 2)
    assert len(fleet.open()) == 9
    fleet.alive.add("n0003")
    fleet.passes(REPORT)

    assert (len(fleet.open()), fleet.writes) == (10, 0)


def test_many_that_die_are_all_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Two hundred of a thousand, each with one write, within one period."""
    fleet = Fleet(1000)
    killed = set(fleet.names[:200])
    fleet.alive -= killed

    fleet.passes(GRACE + UNKNOWN + 1)

    assert (fleet.silent(), fleet.writes) == (killed, 200)
    assert fleet.open() == fleet.alive
    assert (fleet.ledger.suspects, caplog.records) == (0, [])


@pytest.mark.parametrize("left", [0, 400], ids=["all", "more than half"])
def test_where_most_fall_silent_berth_suspects_itself(left: int, caplog: pytest.LogCaptureFixture) -> None:
    """Their cards get no new pods, nothing is written, and the log says so once, and when it is over."""
    fleet = Fleet(1000)
    fleet.alive = set(fleet.names[:left])

    fleet.passes(GRACE + 1)
    assert fleet.open() == fleet.alive
    fleet.passes(200)
    assert (fleet.writes, fleet.open(), fleet.ledger.suspects) == (0, fleet.alive, 1000 - left)
    (alarm,) = (record.getMessage() for record in caplog.records)
    assert "agents fell silent within 40 s" in alarm

    fleet.alive = set(fleet.names[:900])
    fleet.passes(REPORT)
    assert (fleet.open(), fleet.writes) == (fleet.alive, 0)
    fleet.passes(GRACE + 1)
    assert (fleet.silent(), fleet.ledger.suspects) == (set(fleet.names[900:]), 0)
    assert fleet.writes == 100
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


@pytest.mark.parametrize("unknown", [0, 4], ids="unknown for {} s".format)
@pytest.mark.parametrize("left", [0, 40, 49], ids="{} live on".format)
def test_no_period_is_too_short_to_see_that_most_fall_silent(
    unknown: int, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Though the first of them fell nearly ten seconds before the last, none of them is reported."""
    fleet = Fleet(100)
    fleet.ledger.policy_seen(Policy(unknown_seconds=unknown))
    fleet.alive = set(fleet.names[:left])

    fleet.passes(300)

    assert (fleet.writes, fleet.open(), fleet.ledger.suspects) == (0, fleet.alive, 100 - left)
    assert levels(caplog) == ["ERROR"]


@pytest.mark.parametrize("killed", [1, 2, 49])
def test_silence_that_is_to_be_reported_at_once_waits_until_others_are_heard(killed: int) -> None:
    """Where too few fell for a mass silence, that takes no longer than the time between two renewals."""
    fleet = Fleet(100)
    fleet.ledger.policy_seen(Policy(unknown_seconds=0))
    dead = set(fleet.names[:killed])
    fleet.alive -= dead

    fleet.passes(GRACE + REPORT)
    assert fleet.silent() == dead

    fleet.passes(300)
    assert (fleet.writes, fleet.ledger.suspects) == (killed, 0)


def test_what_was_reported_once_is_not_doubted_later() -> None:
    """A restore of the server's state, after which all are awaited, costs no write about the dead."""
    fleet = Fleet(100)
    fleet.ledger.policy_seen(Policy(unknown_seconds=0))
    fleet.alive.remove("n0003")
    fleet.passes(GRACE + REPORT)
    assert fleet.writes == 1

    fleet.watchdog.restored()
    fleet.passes(GRACE)

    assert (fleet.silent(), fleet.writes) == ({"n0003"}, 1)


def test_two_of_three_may_well_have_died() -> None:
    """Of so few, more than half are no proof that Berth is deaf."""
    fleet = Fleet(3)
    fleet.alive = {"n0000"}

    fleet.passes(GRACE + UNKNOWN + 1)

    assert fleet.silent() == {"n0001", "n0002"}


def test_a_restored_server_is_no_mass_death(caplog: pytest.LogCaptureFixture) -> None:
    """None is ready until it renews, and those that do within a minute cost no write."""
    fleet = Fleet(100)
    fleet.alive.remove("n0007")
    fleet.passes(GRACE + UNKNOWN + 1)
    fleet.alive.remove("n0008")
    fleet.watchdog.restored()
    assert fleet.open() == set()

    fleet.passes(2 * REPORT)

    assert (fleet.open(), fleet.writes) == (fleet.alive, 1)
    fleet.passes(GRACE + UNKNOWN)
    assert (fleet.silent(), fleet.writes, caplog.records) == ({"n0007", "n0008"}, 2, [])


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what kinds of alarms there were."""
    return [record.levelname for record in caplog.records]


@pytest.mark.parametrize("quiet_before", [0, 35, 45], ids=["alive", "unheard", "suspects"])
def test_where_none_comes_back_after_a_restore_berth_suspects_itself(
    quiet_before: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One alarm and no write, also if agents had been quiet for a while; it ends when most report."""
    fleet = Fleet(100)
    fleet.alive = set()
    fleet.passes(quiet_before)
    fleet.watchdog.restored()

    fleet.passes(300)
    assert (fleet.writes, fleet.ledger.suspects, fleet.open()) == (0, 100, set())
    assert levels(caplog) == ["ERROR"]

    fleet.alive = set(fleet.names[10:])
    fleet.passes(2 * REPORT + GRACE + 2)  # Of the first renewal after a restore nobody knows how old it is.
    assert (fleet.silent(), fleet.ledger.suspects, fleet.writes) == (set(fleet.names[:10]), 0, 10)
    assert levels(caplog) == ["ERROR", "WARNING"]


def test_half_before_a_restore_and_half_after_it_are_suspects_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those that had just fallen silent are no proof of deaths, either."""
    fleet = Fleet(100)
    fleet.alive = set(fleet.names[:50])
    fleet.passes(GRACE + UNKNOWN // 2)
    fleet.watchdog.restored()
    fleet.alive = set()
    assert levels(caplog) == []

    fleet.passes(300)

    assert (fleet.writes, fleet.ledger.suspects, levels(caplog)) == (0, 100, ["ERROR"])


def test_a_restore_while_the_first_fall_proves_nothing_of_them(caplog: pytest.LogCaptureFixture) -> None:
    """They are to be reported at once, but whether most follow is known only a grace period later."""
    fleet = Fleet(100)
    fleet.ledger.policy_seen(Policy(unknown_seconds=0))
    fleet.alive = set(fleet.names[:50])
    fleet.passes(GRACE - REPORT // 2)
    assert 0 < len(fleet.names) - len(fleet.open()) < 50
    fleet.watchdog.restored()
    fleet.alive = set()

    fleet.passes(300)

    assert (fleet.writes, fleet.ledger.suspects, levels(caplog)) == (0, 100, ["ERROR"])


def test_few_that_died_before_a_restore_raise_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """Though for a moment no agent is ready, the others are expected to come back."""
    fleet = Fleet(100)
    fleet.alive = set(fleet.names[3:])
    fleet.passes(GRACE + UNKNOWN + 1)
    fleet.watchdog.restored()

    fleet.passes(300)

    assert (fleet.silent(), fleet.writes, levels(caplog)) == (set(fleet.names[:3]), 3, [])


@pytest.mark.parametrize("unknown", [0, UNKNOWN])
def test_where_no_agent_was_ever_heard_berth_suspects_itself(
    unknown: int, caplog: pytest.LogCaptureFixture
) -> None:
    """At a start without Leases: one alarm, and not a second one as long as none comes."""
    fleet = Fleet(100, dead=True)
    fleet.ledger.policy_seen(Policy(unknown_seconds=unknown))

    fleet.passes(300)

    assert (fleet.silent(), fleet.writes, fleet.ledger.suspects) == (set(), 0, 100)
    assert {fleet.watchdog.known_state(name) for name in fleet.names} == {State.UNKNOWN}
    assert levels(caplog) == ["ERROR"]


def test_agents_that_were_silent_before_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    """They are reported as they were, though they are most; so are the few whom nobody has heard."""
    fleet = Fleet(100, dead=True, found_silent=98)

    fleet.passes(300)

    assert (fleet.silent(), fleet.ledger.suspects, levels(caplog)) == (set(fleet.names), 0, [])


def test_a_cluster_that_agents_are_brought_into_raises_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """Each Device is there before its first Lease, one agent in four never gets on, and all come slowly."""
    fleet = Fleet(4)
    for at in range(4, 100):
        name = f"n{at:04}"
        fleet.names.append(name)
        fleet.ledger.node_seen(builders.node(name))
        fleet.ledger.device_seen(builders.device(name, 1))
        fleet.watchdog.device_seen(name, found_silent=False)
        fleet.passes(3)
        fleet.alive |= {name} if at % 4 else set()
    fleet.passes(GRACE + UNKNOWN + 2)

    assert fleet.silent() == set(fleet.names[4::4])
    assert levels(caplog) == []


def _at(moment: float, _node: str) -> float:
    return moment


states = st.sampled_from(State)


@hypothesis.given(st.lists(st.lists(states, min_size=7, max_size=7), max_size=12), st.integers(1, 5))
def test_suspects_are_most_of_all_and_never_ready(history: Iterable[list[State]], grace: int) -> None:
    """Whatever agents do: only agents not found silent at first, and at the beginning more than are ready."""
    mass = liveness.MassSilence()
    awaited: set[str] = set()

    for now, row in enumerate(history):
        named = {f"n{at}": state for at, state in enumerate(row)}
        before = mass.suspects
        quiet = {node: state for node, state in named.items() if state is not State.READY}
        ready = named.keys() - quiet.keys()
        mass.update(named.keys(), quiet, functools.partial(_at, float(now)), now, grace)
        awaited |= ready if awaited or now else {node for node in named if named[node] is not State.SILENT}
        assert mass.suspects <= awaited - ready
        assert before or not mass.suspects or len(mass.suspects) > max(2, len(ready))
