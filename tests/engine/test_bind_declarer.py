"""No bind is sent that the Lease does not declare, whatever becomes of its writes, and whoever reads it."""

import asyncio
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth_operator.engine import bind_declarer
from berth_operator.engine.bind_declarer import BindDeclaration
from berth_operator.scheduling import decisions
from support import ledgers, thorough, timeless

FREED: Final = decisions.ClusterEvent.CAPACITY_FREED
FAULT: Final = decisions.Refusal(decisions.Reason.INVALID_REQUEST, "No.")


class Lease:
    """A Lease whose writes take as long as a test wants."""

    def __init__(self) -> None:
        self.written: list[BindDeclaration] = []
        self.open: list[asyncio.Future[None]] = []
        self.slow = False

    async def write(self, text: str) -> None:
        """Accept a declaration, at once or when the test says so."""
        self.written.append(bind_declarer.decode(text))
        if self.slow:
            self.open.append(asyncio.get_running_loop().create_future())
            await self.open[-1]

    def answer(self) -> None:
        """Confirm the write that is under way."""
        self.open.pop().set_result(None)


class Declarer(bind_declarer.BindDeclarer):
    """Keeps a Lease ahead of the binds of a ledger of one node."""

    def __init__(self, *versions: str) -> None:
        self.ledger = ledgers.with_nodes(cards=64)
        self.lease = Lease()
        self.sizes: dict[str, int] = {}  # Of large pods, by uid.
        for at, version in enumerate(versions):
            self.wait(f"p{at}", version)
        super().__init__(
            self.ledger, self.lease.write, lambda uid: self.sizes.get(uid, 0), clock=timeless.clock()
        )

    def wait(self, name: str, version: str, **fields: Any) -> None:
        """Have a pod wait in this revision."""
        ledgers.add_waiting(self.ledger, name, version=version, **fields)

    async def permitting(self, name: str) -> asyncio.Task[None]:
        """Ask for the bind of a pod, and let it wait for what it has to wait for."""
        task = asyncio.create_task(self.permit(f"uid-{name}"))
        await timeless.passing(0.01)
        return task

    async def renew(self, seconds: float) -> list[BindDeclaration]:
        """Have the declaration be renewed for a while; return what was written."""
        async with timeless.beside(self.run()):
            await timeless.passing(seconds)
        return self.lease.written

    @property
    def named(self) -> frozenset[str]:
        """The uids that were named last."""
        return self.lease.written[-1].uids


async def declared(*versions: str) -> Declarer:
    """Return what keeps the Lease, after it declared for pods in these revisions, that wait."""
    declarer = Declarer(*versions)
    await declarer.declare()
    return declarer


@timeless.scenario
async def test_a_pod_that_waits_for_its_volumes_is_not_named() -> None:
    """Thousands may wait for volumes that never come; each is declared when its bind is to be sent."""
    declarer = await declared("5")
    ledgers.assume(declarer.ledger, "p0")
    declarer.ledger.assumed_pods.awaiting_volumes.add("uid-p0")
    await declarer.declare()
    declarer.ledger.assumed_pods.volumes_there("uid-p0")

    await declarer.permit("uid-p0")

    assert [one.uids for one in declarer.lease.written[1:]] == [frozenset(), frozenset({"uid-p0"})]


@timeless.scenario
async def test_of_too_many_pods_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods are covered then, and the Lease stays within the limit of its annotations."""
    longest = BindDeclaration(10**18, frozenset(f"{at:036}" for at in range(bind_declarer.MOST_NAMED)))
    monkeypatch.setattr(bind_declarer, "MOST_NAMED", 2)
    declarer = Declarer("5", "6", "7")

    await declarer.permit("uid-p2")

    assert declarer.lease.written == [bind_declarer.EVERYTHING]
    assert len(bind_declarer.encode(longest)) < 200_000  # Of 262,144 for all annotations.


@timeless.scenario
async def test_the_first_declaration_names_what_waits() -> None:
    """What comes first in the backlog is named and stays in line, and what is newer is covered unnamed."""
    declarer = await declared("5", "9")
    declarer.wait("new", "10")

    for name in ("p0", "new"):
        await declarer.permit(f"uid-{name}")

    assert declarer.lease.written == [BindDeclaration(9, frozenset({"uid-p0", "uid-p1"}))]
    assert sorted(ledgers.ready_names(declarer.ledger)) == ["new", "p0", "p1"]


@timeless.scenario
async def test_pods_that_come_last_take_no_place_among_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crowd of important pods whose binds are refused is demoted, and the others are bound first."""
    monkeypatch.setattr(bind_declarer, "NAMED_AHEAD", 1)
    declarer = await declared("5")
    declarer.wait("refused", "4", priority=9)
    declarer.ledger.backlog.demote("uid-refused")

    await declarer.declare()

    assert declarer.named == {"uid-p0"}


@timeless.scenario
async def test_one_write_serves_all_that_wait_for_it() -> None:
    """Pods that are older and were not named wait for one write together."""
    declarer = await declared("100")
    for at in range(50):
        declarer.wait(f"old{at}", str(at))

    await asyncio.gather(*(declarer.permit(f"uid-old{at}") for at in range(50)))

    assert len(declarer.lease.written) == 2
    assert {f"uid-old{at}" for at in range(50)} <= declarer.named


@timeless.scenario
async def test_what_comes_soon_is_named_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first in order are named, whoever asked; binds under way stay named."""
    declarer = await declared("100")
    bind = ledgers.assume(declarer.ledger, "p0")
    monkeypatch.setattr(bind_declarer, "NAMED_AHEAD", 2)
    for at in range(5):
        declarer.wait(f"old{at}", str(at), priority=-at)

    await declarer.permit("uid-old4")

    assert declarer.named == {bind.uid, "uid-old0", "uid-old1", "uid-old4"}


@timeless.scenario
async def test_while_a_write_is_under_way_both_declarations_count() -> None:
    """The narrower one may be in force already, or never come to be."""
    declarer = await declared("100")
    declarer.lease.slow = True
    declarer.wait("old", "3")
    waiting = await declarer.permitting("old")
    for name, version in (("between", "101"), ("p0", "102")):
        declarer.wait(name, version)

    later = await declarer.permitting("between")
    covered = later.done()
    declarer.lease.answer()
    await waiting

    assert covered, "it is newer than both revisions"
    assert not declarer.lease.open


@timeless.scenario
async def test_a_pod_that_is_gone_needs_no_permission() -> None:
    """Nobody waits for ever for a pod that will never be bound."""
    declarer = await declared("5")
    declarer.lease.slow = True
    declarer.wait("old", "3")
    waiting = await declarer.permitting("old")

    declarer.ledger.pod_over("uid-old")
    declarer.lease.answer()

    await asyncio.wait_for(waiting, 1)


@timeless.scenario
async def test_a_declaration_that_covers_too_much_is_made_anew() -> None:
    """A new leader has to change all that is covered, so that is kept small."""
    declarer = await declared("5")
    for at in range(bind_declarer.MOST_COVERED + 1):
        declarer.wait(f"new{at}", str(10 + at))

    first, second = await declarer.renew(2.5)

    assert (first.after, second.after) == (5, 10 + bind_declarer.MOST_COVERED)
    assert len(second.uids) == bind_declarer.NAMED_AHEAD


def crowd(declarer: Declarer, count: int, **fields: Any) -> None:
    """Have so many pods come, each newer and less important than the last, and wait for a change."""
    for at in range(count):
        declarer.wait(f"big{at}", str(1000 + at), priority=-at, **fields)
        ledgers.requeue(declarer.ledger, f"big{at}", FREED)


@timeless.scenario
async def test_of_a_crowd_that_fits_nowhere_only_the_first_are_named() -> None:
    """A new leader has to change each pod that is named, and those that are in line count for more."""
    declarer = await declared("5")
    crowd(declarer, 200)
    declarer.wait("last", "6", priority=-999)
    await timeless.passing(1.0)

    await declarer.declare()

    first = {f"uid-big{at}" for at in range(bind_declarer.IDLE_AHEAD)}
    assert declarer.lease.written[-1] == BindDeclaration(1199, frozenset({"uid-p0", "uid-last", *first}))


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
    declarer = await declared("5")
    crowd(declarer, count, **fields)
    declarer.sizes |= {f"uid-big{at}": size for at in range(count)}

    assert len(await declarer.renew(5 * bind_declarer.CHECK_SECONDS)) == writes


@timeless.scenario
async def test_pods_that_were_named_and_did_not_fit_are_soon_covered_no_more() -> None:
    """They were in line when they were named, and are not any more."""
    count = 2 * bind_declarer.MOST_IDLE - 1
    declarer = await declared(*(str(at) for at in range(1, count + 1)))
    for at in range(count):
        ledgers.requeue(declarer.ledger, f"p{at}", FREED)

    written = await declarer.renew(5 * bind_declarer.CHECK_SECONDS)

    assert [len(one.uids) for one in written] == [count, bind_declarer.IDLE_AHEAD]


@timeless.scenario
async def test_a_large_pod_is_named_only_for_its_own_bind() -> None:
    """To change it takes a new leader as long as a hundred others, and meanwhile all of them wait."""
    declarer = await declared("100")
    for at in range(3):
        declarer.wait(f"large{at}", str(at), priority=9)
        declarer.sizes[f"uid-large{at}"] = bind_declarer.LARGE
    bind = ledgers.assume(declarer.ledger, "large1")

    await asyncio.gather(declarer.permit(bind.uid), declarer.permit("uid-large0"))

    named = frozenset({"uid-p0", bind.uid, "uid-large0"})
    assert declarer.lease.written[1:] == [BindDeclaration(100, named)]


@timeless.scenario
async def test_the_first_of_a_crowd_are_found_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare all pods that wait takes time, so what was found counts for some seconds."""
    monkeypatch.setattr(bind_declarer, "COMPARED_PER_SECOND", 20)
    declarer = await declared("5")
    crowd(declarer, 200)
    await declarer.declare()
    ledgers.add_sleeping(declarer.ledger, "more", FREED, version="2000", priority=9)

    await declarer.declare()
    await timeless.passing(11.0)
    await declarer.declare()

    assert ["uid-more" in one.uids for one in declarer.lease.written] == [False, False, False, True]


PODS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("asks"), PODS),
        st.tuples(st.just("answer"), PODS),
        st.tuples(st.sampled_from(["comes", "is bound", "time"]), PODS),
    ),
    min_size=3,
    max_size=30,
)


@settings(max_examples=thorough.examples(300))
@example([("asks", 0), ("asks", 2), ("asks", 1)], 1)
@given(STEPS, st.integers(1, 2))
def test_whatever_is_in_force_covers_every_bind(steps: list[tuple[str, int]], ahead: int) -> None:
    """A pod that was permitted and has no answer yet is covered by what was written last, and before."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bind_declarer, "NAMED_AHEAD", ahead)
        patched.setattr(bind_declarer, "MOST_COVERED", 2)
        timeless.scenario(_history)(steps)


async def _history(steps: list[tuple[str, int]]) -> None:
    declarer = await declared(*map(str, range(1, 5)))
    declarer.lease.slow = True
    asked: dict[str, asyncio.Task[None]] = {}
    async with timeless.beside(declarer.run()):
        for version, (what, at) in enumerate(steps, start=5):
            await _do(declarer, asked, what, f"p{at}", str(version))
            await timeless.passing(0.0)
            _check(declarer, [uid for uid, task in asked.items() if task.done()])
        for task in asked.values():
            task.cancel()


async def _do(
    declarer: Declarer, asked: dict[str, asyncio.Task[None]], what: str, name: str, version: str
) -> None:
    uid = f"uid-{name}"
    match what:
        case "comes" if uid not in declarer.ledger.assumed_pods:
            declarer.wait(name, version)
        case "asks" if uid in declarer.ledger.backlog and uid not in asked:
            ledgers.assume(declarer.ledger, name)
            asked[uid] = asyncio.create_task(declarer.permit(uid))
        case "is bound" if uid in asked and asked[uid].done():
            declarer.ledger.pod_over(uid)
            del asked[uid]
        case "answer" if declarer.lease.open:
            declarer.lease.answer()
        case "time":
            await timeless.passing(1.1)


def _check(declarer: Declarer, sent: list[str]) -> None:
    """Whatever the Lease may say now covers all binds that may be under way."""
    in_force = declarer.lease.written[-2:] if declarer.lease.open else declarer.lease.written[-1:]
    for uid in sent:
        revision = declarer.ledger.revisions[uid]
        assert all(one.covers(uid, revision.number) for one in in_force), (uid, revision, in_force)
