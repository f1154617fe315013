"""Cards that are cut: MIG instances and replicas."""

from typing import Any

import pytest

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, facts, mig_slices, requests
from scheduling.devices import build

A100 = "NVIDIA A100-SXM4-80GB"
GIB = build.GIB


def mig(minor: int, *placed: tuple[str, int, int], **fields: Any) -> facts.Card:
    """Make a card in MIG mode with instances of profile, start and size."""
    instances = tuple(
        facts.Instance(f"MIG-{minor}-{start}", profile, size * 10 * GIB, start, size)
        for profile, start, size in placed
    )
    return build.gpu(minor, model=A100, mig=True, instances=instances, memory=80 * GIB, **fields)


def given(view: device_view.View, *asks: requests.Ask, **fields: Any) -> list[str]:
    """Place a pod and name what it got."""
    return [
        share.uuid for share in build.given(allocator.place(view, build.request(*asks, **fields)))["main"]
    ]


# ---------------------------------------------------------------- MIG


def test_an_instance_is_named_with_its_own_uuid_and_its_cards_minor() -> None:
    """A share of MIG says which instance, on which card, and how large."""
    made = build.device(mig(3, ("2g.20gb", 4, 2)))

    (share,) = build.given(
        allocator.place(build.view(made), build.request(requests.Instances("2g.20gb", 1)))
    )["main"]

    assert (share.uuid, share.minor, share.profile) == ("MIG-3-4", 3, "2g.20gb")
    assert (share.core, share.memory) == (100, 20 * GIB)


def test_a_started_card_comes_first() -> None:
    """An untouched card stays untouched while a started one has an instance."""
    card = (("1g.10gb", 0, 1), ("1g.10gb", 1, 1))
    made = build.device(mig(0, *card), mig(1, *card))
    view = build.view(made, {"MIG-1-0": device_view.Usage(100, 10 * GIB, 1)})

    assert given(view, requests.Instances("1g.10gb", 1)) == ["MIG-1-1"]


def test_the_least_harmful_instance_is_given() -> None:
    """A slice beside a used one goes before a slice out of a piece that could be cut anew."""
    made = build.device(mig(0, *(("1g.10gb", at, 1) for at in (0, 1, 2, 4, 5, 6))))
    view = build.view(made, {"MIG-0-5": device_view.Usage(100, 10 * GIB, 1)})

    # Slices 0 to 3 could still be one piece of four; beside slice 5, only slice 4 is spoilt for a pair.
    assert given(view, requests.Instances("1g.10gb", 1)) == ["MIG-0-4"]


def test_several_instances_stay_close_together() -> None:
    """After each instance the harm is counted anew, so three break only one half of the card."""
    made = build.device(mig(0, *(("1g.10gb", at, 1) for at in range(7))))

    assert given(build.view(made), requests.Instances("1g.10gb", 3)) == ["MIG-0-4", "MIG-0-5", "MIG-0-6"]


def test_harm_counts_what_can_no_longer_be_cut() -> None:
    """Larger pieces outweigh all smaller ones together, and a used slice harms nothing more."""
    untouched = mig_slices.harm(A100, 0b1, taken=0)
    quad_gone = mig_slices.harm(A100, 0b1, taken=0b10)
    pair_gone = mig_slices.harm(A100, 0b10000000, taken=0b01000000)

    assert untouched > mig_slices.SIZE_WEIGHT**8 > quad_gone > 0
    assert pair_gone < quad_gone


def test_an_unknown_model_is_cut_in_halves() -> None:
    """Without a catalogue entry a free half still outweighs its quarters."""
    assert mig_slices.harm("NoSuchCard", 0b1, taken=0b100000) > mig_slices.harm("NoSuchCard", 0b1, taken=0b10)


@pytest.mark.parametrize(
    ("profile", "why", "never"),
    [("7g.80gb", Reason.PROFILE_MISMATCH, True), ("1g.10gb", Reason.NO_INSTANCE, False)],
)
def test_a_profile_that_is_missing_or_gone_is_refused(profile: str, why: Reason, never: bool) -> None:  # noqa: FBT001  the value is the example
    """To have no such instance is for ever; to have none left is not."""
    made = build.device(mig(0, ("1g.10gb", 0, 1)))
    view = build.view(made, {"MIG-0-0": device_view.Usage(100, 10 * GIB, 1)})

    refusal = build.refused(allocator.place(view, build.request(requests.Instances(profile, 1))))

    assert (refusal.reason, refusal.never, refusal.detail) == (why, never, profile)
    assert [verdict.reason for verdict in refusal.against] == [why]


def test_a_card_in_mig_mode_gives_nothing_else() -> None:
    """Neither the whole card nor a share of it can be had."""
    made = build.device(mig(0, ("1g.10gb", 0, 1)))

    for ask in (requests.cards(1), requests.Gpus(1, core=10), requests.Replicas(1)):
        refusal = build.refused(allocator.place(build.view(made), build.request(ask)))
        assert (refusal.reason, refusal.never) == (Reason.MIG_MODE, True)


def test_an_instance_can_be_pinned_by_its_uuid() -> None:
    """A list of uuids may name an instance instead of its card."""
    made = build.device(mig(0, ("1g.10gb", 0, 1), ("1g.10gb", 1, 1)))
    pinned = requests.Conditions(uuids=frozenset({"MIG-0-1"}))

    assert given(build.view(made), requests.Instances("1g.10gb", 1), conditions=pinned) == ["MIG-0-1"]


def test_an_init_container_borrows_an_instance() -> None:
    """An init container takes the very instance that the main one will use."""
    made = build.device(mig(0, *(("1g.10gb", at, 1) for at in range(3))))
    one = requests.Instances("1g.10gb", 1)

    found = build.given(allocator.place(build.view(made), build.request(one, init=(one,))))

    assert found["init"] == found["main"]


# ---------------------------------------------------------------- replicas


def shared(minor: int, replicas: int = 4) -> facts.Card:
    """Make a card whose agent shares it."""
    return build.gpu(minor, replicas=replicas)


def replicas_of(card: facts.Card, count: int) -> device_view.Usage:
    """Say that so many pods have a replica each."""
    return device_view.Usage(100 // card.replicas * count, card.memory // card.replicas * count, count)


def test_a_replica_is_its_part_of_the_card() -> None:
    """Core and memory are divided, rounded down, so that all replicas together fit."""
    made = build.device(shared(0, 3))

    (share,) = build.given(allocator.place(build.view(made), build.request(requests.Replicas(1))))["main"]

    assert (share.core, share.memory) == (33, 8 * GIB // 3)


def test_distributed_replicas_go_to_the_least_used_card() -> None:
    """The card with the fewest used replicas gives, then the lower minor."""
    cards = [shared(at) for at in range(3)]
    used = {0: replicas_of(cards[0], 2), 1: replicas_of(cards[1], 1), 2: replicas_of(cards[2], 1)}

    assert given(build.view(build.device(*cards), used), requests.Replicas(1)) == ["GPU-1"]


def test_packed_replicas_go_to_the_fullest_card() -> None:
    """Where packing is wanted, the most used card that has one left gives."""
    cards = [shared(at) for at in range(3)]
    used = {1: replicas_of(cards[1], 3), 2: replicas_of(cards[2], 4)}
    packed = build.grouping(spread_replicas=False)

    assert given(build.view(build.device(*cards), used), requests.Replicas(1), grouping=packed) == ["GPU-1"]


def test_replicas_of_one_container_come_from_different_cards_while_there_are_some() -> None:
    """Two replicas of one card are no two cards; they are given only when nothing else is left."""
    cards = [shared(0), shared(1)]
    used = {0: replicas_of(cards[0], 2)}
    view = build.view(build.device(*cards), used)

    assert given(view, requests.Replicas(2)) == ["GPU-0", "GPU-1"]
    three = build.given(allocator.place(view, build.request(requests.Replicas(3))))["main"]
    assert [(share.uuid, share.core) for share in three] == [("GPU-0", 25), ("GPU-1", 50)]


def test_no_card_gives_more_replicas_than_it_has() -> None:
    """A full card refuses, however little its pods may use of it."""
    card = shared(0, 2)
    view = build.view(build.device(card), {0: replicas_of(card, 1)})

    refusal = build.refused(allocator.place(view, build.request(requests.Replicas(2))))

    assert (refusal.reason, refusal.never, refusal.found) == (Reason.FULL, False, 1)


def test_a_hold_from_before_the_sharing_counts_in_full() -> None:
    """A pod that has the card whole leaves no replica, though it is only one pod."""
    card = shared(0, 4)
    view = build.view(build.device(card), build.held(0))

    assert build.refused(allocator.place(view, build.request(requests.Replicas(1)))).reason is Reason.FULL


def test_shared_cards_and_plain_ones_do_not_stand_in_for_each_other() -> None:
    """A shared card gives replicas only, and only a shared card does."""
    plain, cut = build.view(build.device(build.gpu(0))), build.view(build.device(shared(0)))

    for view, ask in (
        (cut, requests.cards(1)),
        (cut, requests.Gpus(1, core=10)),
        (plain, requests.Replicas(1)),
    ):
        refusal = build.refused(allocator.place(view, build.request(ask)))
        assert (refusal.reason, refusal.never) == (Reason.SHARING_MODE, True)
