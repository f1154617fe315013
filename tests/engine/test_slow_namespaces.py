"""A namespace whose binds take long, as with a webhook that hangs, has nobody else wait."""

import asyncio
from typing import Final

import pytest

from berth_operator.engine import bind_sender, bind_slots, ports, slow_namespaces
from engine.harness import Engine
from support import timeless
from support.writers import Reply

HANGS: Final = 3.0  # As long as a server waits for a webhook.
CROWD: Final = 600
REFUSED: Final = ports.Refused("failed calling webhook: context deadline exceeded")
HANGING: Final = Reply(REFUSED, HANGS)
SLOW: Final = "slow"


def with_slow_pods(count: int = CROWD, reply: Reply = HANGING, at_once: int = 64) -> Engine:
    """Return an engine with much room, and a crowd whose binds take long."""
    engine = Engine(nodes=100, cards=8, limits=bind_sender.Limits(binds_at_once=at_once))
    engine.crowd((f"slow{number:03}" for number in range(count)), reply, priority=1, namespace=SLOW)
    return engine


@pytest.mark.parametrize("after", [0.1, 1.0, 2.9, 3.1, 4.0, 9.0])
@timeless.scenario
async def test_a_namespace_whose_binds_hang_has_nobody_wait(after: float) -> None:
    """Whenever a pod of another namespace comes, it is bound as soon as the slowness could be noticed."""
    engine = with_slow_pods()

    assert await engine.place_later("quick", after) <= bind_slots.SLOW_SECONDS + 0.05


@timeless.scenario
async def test_dry_runs_that_hang_have_nobody_wait() -> None:
    """Nor do the pods of another namespace with refusals wait behind the crowd's dry runs."""
    engine = with_slow_pods()
    engine.crowd((f"other{number}" for number in range(4)), ports.Refused("over quota"), ports.Bound())

    assert await engine.place_later("new", 20.0) <= 0.1


@pytest.mark.parametrize(("at_once", "kept"), [(64, bind_slots.FIRST_WIDTH), (2, 2)])
@timeless.scenario
async def test_a_slow_namespace_keeps_few_cards(at_once: int, kept: int) -> None:
    """No card is kept for pods whose binds are not sent, nor for those that waited for their turn."""
    engine = with_slow_pods(at_once=at_once)

    await engine.advance(bind_slots.SLOW_SECONDS + 0.1)

    assert len(engine.ledger.assumed_pods) == engine.writer.now_open == kept


@timeless.scenario
async def test_slow_namespaces_together_keep_few_cards() -> None:
    """However many namespaces a webhook makes slow, no card is kept for a bind that is not sent."""
    engine = with_slow_pods(0)

    for moment, count, takes in ((0.9, 20, 1.0), (2.0, CROWD, HANGS)):
        for number in range(count):
            engine.wait(f"p{count}-{number}", Reply(takes=takes), namespace=f"slow{number % 20}")
        await engine.advance(moment)

    unanswered = len(engine.ledger.assumed_pods) - len(engine.status_writer.reports)
    assert unanswered == engine.writer.now_open == bind_sender.Limits().binds_at_once // 2


@pytest.mark.parametrize(
    ("at_once", "first", "assumed", "crowd", "within"),
    [
        pytest.param(64, bind_slots.FIRST_WIDTH, bind_slots.FIRST_WIDTH, CROWD, 2.0, id="many"),
        pytest.param(1, 1, 1, 60, 2.6, id="one bind at once"),
    ],
)
@timeless.scenario
async def test_a_namespace_that_has_become_quick_again_is_bound_at_once(
    at_once: int, first: int, assumed: int, crowd: int, within: float
) -> None:
    """With each quick answer more are sent, until all are."""
    engine = with_slow_pods(first, Reply(takes=1.0), at_once)
    await engine.advance(0.9)
    engine.crowd((f"later{number}" for number in range(crowd)), namespace=SLOW)
    await engine.advance(0.99)

    kept = len(engine.ledger.assumed_pods)
    await engine.advance(lambda: engine.results() == {"bound": first + crowd})

    assert kept == assumed
    assert engine.now() < within


@timeless.scenario
async def test_pods_suspended_for_long_say_why() -> None:
    """Not at once, for most slow spells are short; not those that show another reason; and only once."""
    engine = with_slow_pods(reply=Reply(ports.Refused("no"), takes=1000.0))
    engine.status_writer.shows["uid-slow020"] = "something else"
    await engine.advance(slow_namespaces.REPORTED_SECONDS - 0.1)
    early = list(engine.status_writer.reports)

    await engine.advance(10 * slow_namespaces.REPORTED_SECONDS)

    first = range(bind_slots.FIRST_WIDTH, bind_slots.FIRST_WIDTH + slow_namespaces.MOST_REPORTED)
    message = f"Not bound yet: {slow_namespaces.MESSAGE}"
    assert early == []
    assert engine.status_writer.reports == [(f"slow{at:03}", message) for at in first if at != 20]


@timeless.scenario
async def test_a_namespace_that_is_new_begins_with_few_and_has_soon_as_many_as_any() -> None:
    """Nobody knows yet how long its binds take; each quick answer counts."""
    engine = with_slow_pods(0)
    engine.crowd(f"p{number}" for number in range(CROWD))
    await engine.advance(lambda: engine.writer.binds)
    first = engine.writer.now_open

    await engine.advance(lambda: len(engine.status_writer.reports) == CROWD)

    assert (first, engine.writer.most_open) == (bind_slots.FIRST_WIDTH, bind_sender.Limits().binds_at_once)
    assert engine.now() < 0.2


# ---------------------------------------------------------------- windows


async def timed(found: bind_slots.BindSlots, namespace: str = "a") -> bind_slots.Slot:
    """Return a slot of a namespace whose request is sent."""
    slot = await found.acquire_patiently(namespace)
    found.start_timing(slot)
    return slot


async def all_are_free(found: bind_slots.BindSlots) -> bool:
    """Whether another namespace can have all slots at once."""
    async with asyncio.timeout(1.0):
        return None not in [await found.acquire("other") for _ in range(16)]


@timeless.scenario
async def test_all_windows_together_leave_room() -> None:
    """However many namespaces are slow, no more than half of all slots are sent for them."""
    found = bind_slots.BindSlots(16, lambda: None)
    for name in "abcdef" * 2:
        await timed(found, name)
    await timeless.at(bind_slots.SLOW_SECONDS + 0.1)
    assert set(found.slow) == set("abcdef")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(found.acquire_patiently("a"), 5.0)

    assert found.width("a") == 8
    assert await all_are_free(found)


@timeless.scenario
async def test_what_had_its_slot_before_leaves_room_once_it_is_slow_too() -> None:
    """Of a namespace that turned slow meanwhile, what is sent late counts for others no more either."""
    found = bind_slots.BindSlots(16, lambda: None)
    first, *late = [await found.acquire_patiently("a") for _ in range(16)]
    found.start_timing(first)
    await timeless.at(bind_slots.SLOW_SECONDS + 0.1)

    for slot in late:
        found.start_timing(slot)
    await timeless.at(2 * bind_slots.SLOW_SECONDS + 0.2)

    assert await all_are_free(found)


@timeless.scenario
async def test_a_window_widens_with_each_quick_answer_and_closes_with_a_slow_one() -> None:
    """So the server is asked for as much as it answers quickly; what was slow long ago is forgotten."""
    found, widths = bind_slots.BindSlots(16, lambda: None), []
    slow = await timed(found)
    await timeless.at(1.0)
    for _ in range(3):
        found.release(await timed(found))
        widths.append(found.width("a"))
    late = await timed(found)
    await timeless.at(2.0)
    closed = found.width("a")

    found.release(slow)
    found.release(late)
    await timeless.at(2.5 + bind_slots.FORGOTTEN_SECONDS)
    await found.acquire("another")

    assert (widths, closed, found.width("a")) == ([9, 10, 11], 8, None)


THROTTLED: Final = Reply(ports.Throttled("too many requests", 2.0), 0.6)


@pytest.mark.parametrize("after", [0.1, 0.7, 1.5, 2.5, 2.7, 6.0])
@timeless.scenario
async def test_a_namespace_that_is_throttled_has_nobody_wait(after: float) -> None:
    """A server that divides itself fairly may reject the binds of one namespace: others do not pause."""
    engine = with_slow_pods(reply=THROTTLED)

    assert await engine.place_later("quick", after) <= bind_slots.SLOW_SECONDS + 0.05


@timeless.scenario
async def test_a_namespace_that_is_throttled_pauses_for_as_long_as_the_server_asks() -> None:
    """None of its binds is sent meanwhile; its pods are told if that is long, and bound afterwards."""
    engine = with_slow_pods(0)
    throttled = ports.Throttled("too many requests", 8.0)
    engine.crowd((f"p{number}" for number in range(60)), throttled, ports.Bound(), namespace=SLOW)
    await engine.advance(7.9)

    moments = [call.moment for call in engine.writer.binds]
    assert [moment for moment in moments if moment > 0.1] == []
    await engine.advance(lambda: engine.results().get("bound") == 60)
    reports = {sentence for _, sentence in engine.status_writer.reports if "throttles" in sentence}
    assert reports == {f"Not bound yet: {slow_namespaces.THROTTLED}"}


@timeless.scenario
async def test_a_server_that_throttles_two_namespaces_is_left_alone() -> None:
    """Then it has too many requests, whosever they are."""
    engine = Engine(nodes=100, cards=8)
    for namespace in ("one", "two"):
        engine.wait(namespace, ports.Throttled("too many requests", 3.0), ports.Bound(), namespace=namespace)
    await engine.advance(0.5)

    assert await engine.place_later("quick", 0.5) == pytest.approx(2.5, abs=0.1)
