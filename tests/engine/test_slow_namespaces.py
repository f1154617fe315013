"""A namespace whose binds take long, as with a webhook that hangs, has nobody else wait."""

import asyncio
import dataclasses
from typing import Final

import pytest

from berth_operator.engine import bind_sender, bind_slots, binder, ports, slow_namespaces
from berth_operator.engine.hold_states import State
from berth_operator.scheduling import queued_pods
from engine.stages import Stage
from support import builders, timeless
from support.hands import Reply

HANGS: Final = 3.0  # As long as a server waits for a webhook.
CROWD: Final = 600
REFUSED: Final = ports.Refused("failed calling webhook: context deadline exceeded")
LOST: Final = ports.Unknown("timed out", version="7")


def slow_pod(name: str, priority: int = 0, namespace: str = "slow") -> queued_pods.Candidate:
    """Make a pod of a slow namespace."""
    return dataclasses.replace(builders.candidate(name, priority=priority), namespace=namespace)


def slow(stage: Stage, count: int = CROWD, *, takes: float = HANGS, answer: ports.Answer = REFUSED) -> None:
    """Have a crowd wait whose binds take long."""
    for number in range(count):
        name = f"slow{number:03}"
        stage.writer.when_bound(name, Reply(answer, takes=takes))
        stage.ledger.pod_waiting(slow_pod(name, priority=1), gated=False)


def bound_at(stage: Stage, name: str) -> float:
    """Return when a bind was sent for a pod last."""
    return next(call.moment for call in reversed(stage.writer.binds) if call.name == name)


@pytest.mark.parametrize("after", [0.1, 1.0, 2.9, 3.1, 4.0, 9.0])
@timeless.scenario
async def test_a_namespace_whose_binds_hang_has_nobody_wait(after: float) -> None:
    """Whenever a pod of another namespace comes, it is bound as soon as the slowness could be noticed."""
    stage = Stage(nodes=100, cards=8)
    slow(stage)

    await stage.place_later("quick", after)

    assert bound_at(stage, "quick") - after <= bind_slots.SLOW_SECONDS + 0.05


@timeless.scenario
async def test_dry_runs_that_hang_have_nobody_wait() -> None:
    """Nor do the pods of another namespace with refusals wait behind the crowd's dry runs."""
    stage = Stage(nodes=100, cards=8)
    slow(stage)
    stage.crowd((f"other{number}" for number in range(4)), Reply(ports.Refused("over quota")), Reply())

    await stage.place_later("new", 20.0)

    assert bound_at(stage, "new") - 20.0 <= 0.1


@timeless.scenario
async def test_a_slow_namespace_keeps_few_cards() -> None:
    """No card is kept for pods whose binds are not sent."""
    stage = Stage(nodes=100, cards=8)
    slow(stage)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(bind_slots.SLOW_SECONDS + 0.1)
        assumed = len(stage.ledger.assumed_pods)

    assert assumed == stage.writer.now_open == bind_slots.FIRST_WIDTH


@timeless.scenario
async def test_slow_namespaces_together_keep_few_cards() -> None:
    """However many namespaces a webhook makes slow, no card is kept for a bind that is not sent."""
    stage = Stage(nodes=100, cards=8)

    def come(count: int, takes: float) -> None:
        for number in range(count):
            name = f"p{count}-{number}"
            stage.writer.when_bound(name, Reply(takes=takes))
            stage.ledger.pod_waiting(slow_pod(name, namespace=f"slow{number % 20}"), gated=False)

    come(20, takes=1.0)
    async with timeless.beside(stage.loop.run()):
        await timeless.at(0.9)
        come(CROWD, takes=HANGS)
        await timeless.at(2.0)
        assumed = len(stage.ledger.assumed_pods)
        placed = len(stage.status_writer.told)

    assert assumed - placed == stage.writer.now_open == binder.DEFAULT_LIMITS.binds_at_once // 2


@timeless.scenario
async def test_one_bind_at_once_is_one_for_a_slow_namespace_too() -> None:
    """Nor is it slow for ever then: a quick answer ends that."""
    stage = Stage(nodes=100, cards=8, limits=bind_sender.Limits(binds_at_once=1))
    slow(stage, 1, takes=1.0, answer=ports.Bound())

    async with timeless.beside(stage.loop.run()):
        await timeless.at(0.9)
        for number in range(CROWD):
            stage.ledger.pod_waiting(slow_pod(f"later{number}"), gated=False)
        await timeless.at(0.99)
        assumed = len(stage.ledger.assumed_pods)
        await timeless.until(lambda: len(stage.status_writer.told) == 1 + CROWD)

    assert assumed == 1
    assert stage.now() < 10.0


@timeless.scenario
async def test_a_namespace_that_has_become_quick_again_is_bound_at_once() -> None:
    """With each quick answer more are sent, until all are."""
    stage = Stage(nodes=100, cards=8)
    slow(stage, bind_slots.FIRST_WIDTH, takes=1.0, answer=ports.Bound())
    slow_ones = len(stage.ledger.backlog)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(0.9)
        for number in range(CROWD):
            stage.ledger.pod_waiting(slow_pod(f"later{number}"), gated=False)
        await timeless.until(lambda: len(stage.status_writer.told) == slow_ones + CROWD)

    assert stage.now() < 2.0
    assert all(sentence.startswith("placed") for _, sentence in stage.status_writer.told)


@timeless.scenario
async def test_pods_that_are_held_up_for_long_say_why() -> None:
    """Not at once, for most slow spells are short; and not those that show another reason."""
    stage = Stage(nodes=100, cards=8)
    stage.status_writer.shows["uid-slow599"] = "something else"
    slow(stage, answer=ports.Refused("no"), takes=1000.0)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(slow_namespaces.REPORTED_SECONDS - 0.1)
        early = list(stage.status_writer.told)
        await timeless.at(slow_namespaces.REPORTED_SECONDS + 0.7)

    assert early == []
    told = dict(stage.status_writer.told)
    assert set(told.values()) == {f"failed: {slow_namespaces.MESSAGE}"}
    assert len(told) == slow_namespaces.MOST_REPORTED
    assert f"slow{bind_slots.FIRST_WIDTH:03}" in told
    assert "slow599" not in told


@timeless.scenario
async def test_pods_that_are_held_up_for_long_say_so_once() -> None:
    """The Events of others do not wait behind the same words again and again."""
    stage = Stage(nodes=100, cards=8)
    slow(stage, takes=1000.0)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(10 * slow_namespaces.REPORTED_SECONDS)

    assert len(stage.status_writer.told) == slow_namespaces.MOST_REPORTED


@timeless.scenario
async def test_a_namespace_that_is_new_begins_with_few_and_has_soon_as_many_as_any() -> None:
    """Nobody knows yet how long its binds take; each quick answer counts."""
    stage = Stage(nodes=100, cards=8)
    stage.crowd(f"p{number}" for number in range(CROWD))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.binds)
        first = stage.writer.now_open
        await timeless.until(lambda: len(stage.status_writer.told) == CROWD)

    assert first == bind_slots.FIRST_WIDTH
    assert stage.writer.most_open == binder.DEFAULT_LIMITS.binds_at_once
    assert stage.now() < 0.2


@timeless.scenario
async def test_a_lost_bind_that_stays_without_answer_keeps_its_card_from_nobody() -> None:
    """The pod is changed, so that no copy of its bind can arrive, and the card is given to the next."""
    stage = Stage(cards=1)
    stage.writer.when_looked_at("p", Reply(ports.Unbound(version="7")))
    stage.crowd(["p"], Reply(LOST, takes=4.0), priority=1)
    stage.wait("rival")

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.placed("rival"))

    assert [call.name for call in stage.writer.voided] == ["p"]
    assert stage.status_writer.of("p") == ["failed: timed out"]
    assert bound_at(stage, "rival") < 9.0


@pytest.mark.parametrize(
    "seen", [ports.Unknown("the pod cannot be changed"), RuntimeError("broken")], ids=["unclear", "broken"]
)
@timeless.scenario
async def test_a_lost_bind_that_could_not_be_made_void_keeps_its_card(
    seen: ports.ReadResult | Exception,
) -> None:
    """Nothing is given out twice for impatience (I1)."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(LOST, takes=4.0))
    unbound = Reply(ports.Unbound(version="7"))
    stage.writer.when_looked_at("p", unbound, unbound, Reply(seen), unbound, Reply(seen))
    stage.wait("p", priority=1)
    stage.wait("rival")

    async with timeless.beside(stage.loop.run()):
        await timeless.at(60.0)

    assert stage.moments("rival") == ([], [])
    assert stage.state("p") is State.ASSUMED


# ---------------------------------------------------------------- windows


async def timed(found: bind_slots.BindSlots, namespace: str = "a") -> bind_slots.Slot:
    """Return a slot of a namespace whose request is sent."""
    slot = await found.acquire_patiently(namespace)
    found.start_timing(slot)
    return slot


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
    assert None not in [await found.acquire("other") for _ in range(16)]


@timeless.scenario
async def test_what_had_its_slot_before_leaves_room_once_it_is_slow_too() -> None:
    """Of a namespace that turned slow meanwhile, what is sent late counts for others no more either."""
    found = bind_slots.BindSlots(16, lambda: None)
    first, *late = [await found.acquire("a") for _ in range(16)]
    assert first is not None
    found.start_timing(first)
    await timeless.at(bind_slots.SLOW_SECONDS + 0.1)

    for slot in late:
        assert slot is not None
        found.start_timing(slot)
    await timeless.at(2 * bind_slots.SLOW_SECONDS + 0.2)

    async with asyncio.timeout(1.0):
        assert None not in [await found.acquire("other") for _ in range(16)]


async def slow_slots() -> tuple[bind_slots.BindSlots, bind_slots.Slot]:
    """Return slots of which a namespace has one, for so long that it was found slow."""
    found = bind_slots.BindSlots(16, lambda: None)
    slot = await timed(found)
    await timeless.at(1.0)
    return found, slot


@timeless.scenario
async def test_a_slow_namespace_is_forgotten() -> None:
    """What was slow long ago and asks no more counts for all again."""
    found, slot = await slow_slots()
    found.release(slot)
    narrow = found.width("a")

    await timeless.at(1.5 + bind_slots.FORGOTTEN_SECONDS)
    await found.acquire("another")

    assert narrow == 8
    assert found.width("a") is None


@timeless.scenario
async def test_a_window_widens_with_each_quick_answer_and_closes_with_a_slow_one() -> None:
    """So the server is asked for as much as it answers quickly."""
    found, _ = await slow_slots()
    widths = []

    for _ in range(3):
        found.release(await timed(found))
        widths.append(found.width("a"))
    await timed(found)
    await timeless.at(2.0)

    assert [*widths, found.width("a")] == [9, 10, 11, 8]
