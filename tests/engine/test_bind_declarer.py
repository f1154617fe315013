"""No bind is sent that the Lease does not declare, whatever becomes of the writes of the Lease."""

import asyncio
import dataclasses
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth_operator.engine import bind_declaration, bind_declarer
from berth_operator.engine.bind_declaration import BindDeclaration
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions
from support import ledgers, timeless

FAULT: Final = decisions.Refusal(decisions.Reason.INVALID_REQUEST, "No.")


class Lease:
    """A Lease whose writes take as long as a test wants."""

    def __init__(self) -> None:
        self.written: list[BindDeclaration] = []
        self.open: list[asyncio.Future[None]] = []
        self.slow = False

    async def write(self, text: str) -> None:
        """Accept a declaration, at once or when the test says so."""
        self.written.append(bind_declaration.decode(text))
        if self.slow:
            self.open.append(asyncio.get_running_loop().create_future())
            await self.open[-1]

    def answer(self) -> None:
        """Confirm the write that is under way."""
        self.open.pop().set_result(None)


@dataclasses.dataclass
class Scene:
    """A ledger of one node, the Lease, and what keeps that ahead of the binds."""

    ledger: Ledger
    lease: Lease
    declarer: bind_declarer.BindDeclarer
    sizes: dict[str, int]  # Of large pods, by uid.


async def scene(*versions: str) -> Scene:
    """Return a scene in which the leader has declared for pods in these revisions, that wait."""
    ledger, lease = ledgers.with_nodes(cards=64), Lease()
    for at, version in enumerate(versions):
        ledgers.add_waiting(ledger, f"p{at}", version=version)
    sizes: dict[str, int] = {}
    keeps = bind_declarer.BindDeclarer(
        ledger, lease.write, lambda uid: sizes.get(uid, 0), clock=timeless.clock()
    )
    await keeps.declare()
    return Scene(ledger, lease, keeps, sizes)


@timeless.scenario
async def test_the_first_declaration_names_what_waits() -> None:
    """What comes first in the backlog is named, and all that is newer than what is known is covered."""
    on = await scene("5", "9")

    await on.declarer.permit("uid-p0")

    assert on.lease.written == [BindDeclaration(9, frozenset({"uid-p0", "uid-p1"}))]


@timeless.scenario
async def test_pods_that_come_last_take_no_place_among_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crowd of important pods whose binds are refused is demoted, and the others are bound first."""
    monkeypatch.setattr(bind_declarer, "NAMED_AHEAD", 1)
    on = await scene("5")
    ledgers.add_waiting(on.ledger, "refused", version="4", priority=9)
    on.ledger.backlog.demote("uid-refused")

    await on.declarer.declare()

    assert on.lease.written[-1].uids == {"uid-p0"}


@timeless.scenario
async def test_a_new_pod_costs_no_write() -> None:
    """It has a revision that is newer than any that was known."""
    on = await scene("5")
    ledgers.add_waiting(on.ledger, "new", version="10")

    await on.declarer.permit("uid-new")

    assert len(on.lease.written) == 1


@timeless.scenario
async def test_one_write_serves_all_that_wait_for_it() -> None:
    """Pods that are older and were not named wait for one write together."""
    on = await scene("100")
    for at in range(50):
        ledgers.add_waiting(on.ledger, f"old{at}", version=str(at))

    await asyncio.gather(*(on.declarer.permit(f"uid-old{at}") for at in range(50)))

    assert len(on.lease.written) == 2
    assert {f"uid-old{at}" for at in range(50)} <= on.lease.written[1].uids


@timeless.scenario
async def test_what_comes_soon_is_named_ahead() -> None:
    """The first in order are named, whoever asked; binds under way stay named."""
    on = await scene("100")
    bind = ledgers.assume(on.ledger, "p0")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bind_declarer, "NAMED_AHEAD", 2)
        for at in range(5):
            ledgers.add_waiting(on.ledger, f"old{at}", version=str(at), priority=-at)
        await on.declarer.permit("uid-old4")

    assert on.lease.written[1].uids == {bind.uid, "uid-old0", "uid-old1", "uid-old4"}


@timeless.scenario
async def test_while_a_write_is_under_way_both_declarations_count() -> None:
    """The narrower one may be in force already, or never come to be."""
    on = await scene("100")
    on.lease.slow = True
    ledgers.add_waiting(on.ledger, "old", version="3")
    waiting = asyncio.create_task(on.declarer.permit("uid-old"))
    await timeless.passing(0.01)
    ledgers.add_waiting(on.ledger, "between", version="101")
    ledgers.add_waiting(on.ledger, "p0", version="102")

    later = asyncio.create_task(on.declarer.permit("uid-between"))
    await timeless.passing(0.01)
    covered = later.done()
    on.lease.answer()
    await waiting

    assert covered, "it is newer than both revisions"
    assert not on.lease.open


@timeless.scenario
async def test_a_declaration_that_covers_too_much_is_made_anew() -> None:
    """A new leader has to change all that is covered, so that is kept small."""
    on = await scene("5")
    for at in range(bind_declarer.MOST_COVERED + 1):
        ledgers.add_waiting(on.ledger, f"new{at}", version=str(10 + at))

    async with timeless.beside(on.declarer.run()):
        await timeless.passing(2.5)

    assert [one.after for one in on.lease.written] == [5, 10 + bind_declarer.MOST_COVERED]
    assert len(on.lease.written[1].uids) == bind_declarer.NAMED_AHEAD


def crowd(ledger: Ledger, count: int, *, first: int = 1000, **fields: Any) -> None:
    """Have so many pods come, each newer and less important than the last, and wait for a change."""
    for at in range(count):
        ledgers.add_waiting(ledger, f"big{at}", version=str(first + at), priority=-at, **fields)
        ledgers.put_off(ledger, f"big{at}", decisions.ClusterEvent.CAPACITY_FREED)


@timeless.scenario
async def test_of_a_crowd_that_fits_nowhere_only_the_first_are_named() -> None:
    """A new leader has to change each pod that is named, and those that are in line count for more."""
    on = await scene("5")
    crowd(on.ledger, 200)
    ledgers.add_waiting(on.ledger, "last", version="6", priority=-999)
    await timeless.passing(1.0)

    await on.declarer.declare()

    first = {f"uid-big{at}" for at in range(bind_declarer.IDLE_AHEAD)}
    assert on.lease.written[-1] == BindDeclaration(1199, frozenset({"uid-p0", "uid-last", *first}))


A_FEW: Final = bind_declarer.MOST_IDLE
QUARTER: Final = bind_declarer.MOST_BYTES // 4


@timeless.scenario
@pytest.mark.parametrize(
    ("count", "size", "fields", "writes"),
    [
        pytest.param(A_FEW, 0, {}, 1, id="few"),
        pytest.param(A_FEW + 1, 0, {}, 2, id="many"),
        pytest.param(A_FEW + 1, 0, {"faults": (FAULT,)}, 1, id="many that are never bound"),
        pytest.param(4, QUARTER, {}, 1, id="few large ones"),
        pytest.param(5, QUARTER, {}, 2, id="more large ones"),
    ],
)
async def test_pods_that_came_and_fit_nowhere_are_soon_covered_no_more(
    count: int, size: int, fields: dict[str, Any], writes: int
) -> None:
    """Many or large ones are worth a write; a few, and those that a new leader leaves alone, are not."""
    on = await scene("5")
    crowd(on.ledger, count, **fields)
    on.sizes |= {f"uid-big{at}": size for at in range(count)}

    async with timeless.beside(on.declarer.run()):
        await timeless.passing(5 * bind_declarer.CHECK_SECONDS)

    assert len(on.lease.written) == writes


@timeless.scenario
async def test_a_large_pod_is_named_only_for_its_own_bind() -> None:
    """To change it takes a new leader as long as a hundred others, and meanwhile all of them wait."""
    on = await scene("100")
    for at in range(3):
        ledgers.add_waiting(on.ledger, f"large{at}", version=str(at), priority=9)
        on.sizes[f"uid-large{at}"] = bind_declarer.LARGE
    bind = ledgers.assume(on.ledger, "large1")

    await asyncio.gather(on.declarer.permit(bind.uid), on.declarer.permit("uid-large0"))

    assert on.lease.written[1:] == [BindDeclaration(100, frozenset({"uid-p0", bind.uid, "uid-large0"}))]


@timeless.scenario
async def test_pods_that_were_named_and_did_not_fit_are_soon_covered_no_more() -> None:
    """They were in line when they were named, and are not any more."""
    versions = [str(at) for at in range(1, 2 * bind_declarer.MOST_IDLE)]
    on = await scene(*versions)
    for at in range(len(versions)):
        ledgers.put_off(on.ledger, f"p{at}", decisions.ClusterEvent.CAPACITY_FREED)

    async with timeless.beside(on.declarer.run()):
        await timeless.passing(5 * bind_declarer.CHECK_SECONDS)

    assert [len(one.uids) for one in on.lease.written] == [len(versions), bind_declarer.IDLE_AHEAD]


@timeless.scenario
async def test_the_first_of_a_crowd_are_looked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To compare all pods that wait takes time, so what was found counts for some seconds."""
    monkeypatch.setattr(bind_declarer, "COMPARED_PER_SECOND", 20)
    on = await scene("5")
    crowd(on.ledger, 200)
    await on.declarer.declare()
    ledgers.add_waiting(on.ledger, "more", version="2000", priority=9)
    ledgers.put_off(on.ledger, "more", decisions.ClusterEvent.CAPACITY_FREED)

    await on.declarer.declare()
    await timeless.passing(11.0)
    await on.declarer.declare()

    assert ["uid-more" in one.uids for one in on.lease.written] == [False, False, False, True]


@timeless.scenario
async def test_who_is_named_stays_in_line() -> None:
    """To name pods changes nothing in whose turn it is."""
    on = await scene("5", "6", "7")

    await on.declarer.declare()

    assert ledgers.ready_names(on.ledger) == ["p0", "p1", "p2"]


@timeless.scenario
async def test_a_pod_that_is_gone_needs_no_permission() -> None:
    """Nobody waits for ever for a pod that will never be bound."""
    on = await scene("5")
    on.lease.slow = True
    ledgers.add_waiting(on.ledger, "old", version="3")
    waiting = asyncio.create_task(on.declarer.permit("uid-old"))
    await timeless.passing(0.01)

    on.ledger.pod_over("uid-old")
    on.lease.answer()

    await asyncio.wait_for(waiting, 1)


PODS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("asks"), PODS),
        st.tuples(st.just("answer"), PODS),
        st.tuples(st.sampled_from(["comes", "is told", "time"]), PODS),
    ),
    min_size=3,
    max_size=30,
)


@settings(max_examples=300)
@example([("asks", 0), ("asks", 2), ("asks", 1)], 1)
@given(STEPS, st.integers(1, 2))
def test_whatever_is_in_force_covers_every_bind(steps: list[tuple[str, int]], ahead: int) -> None:
    """A pod that was permitted and has no answer yet is covered by what was written last, and before."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bind_declarer, "NAMED_AHEAD", ahead)
        patched.setattr(bind_declarer, "MOST_COVERED", 2)
        timeless.scenario(_history)(steps)


async def _history(steps: list[tuple[str, int]]) -> None:
    on = await scene(*map(str, range(1, 5)))
    on.lease.slow = True
    version = 4
    asked: dict[str, asyncio.Task[None]] = {}
    async with timeless.beside(on.declarer.run()):
        for what, at in steps:
            version += 1
            uid = f"uid-p{at}"
            match what:
                case "comes" if uid not in on.ledger.assumed_pods:
                    ledgers.add_waiting(on.ledger, f"p{at}", version=str(version))
                case "asks" if uid in on.ledger.backlog and uid not in asked and _fits(on.ledger, uid):
                    asked[uid] = asyncio.create_task(on.declarer.permit(uid))
                case "is told" if uid in asked and asked[uid].done():
                    on.ledger.pod_over(uid)
                    del asked[uid]
                case "answer" if on.lease.open:
                    on.lease.answer()
                case "time":
                    await timeless.passing(1.1)
            await timeless.passing(0.0)
            _check(on, [uid for uid, task in asked.items() if task.done()])
        for task in asked.values():
            task.cancel()


def _fits(ledger: Ledger, uid: str) -> bool:
    """Assume a pod, as a round does before its bind asks for permission."""
    for answer in ledgers.decide(ledger):
        if answer.uid == uid and isinstance(answer, decisions.Bind):
            ledger.assume(answer)
            return True
    return False


def _check(on: Scene, sent: list[str]) -> None:
    """Whatever the Lease may say now covers all binds that may be under way."""
    in_force = on.lease.written[-2:] if on.lease.open else on.lease.written[-1:]
    for uid in sent:
        revision = on.ledger.revisions[uid]
        assert all(one.covers(uid, revision.number) for one in in_force), (uid, revision, in_force)
