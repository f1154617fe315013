"""Whatever order agents, pods, kubelets, evictions and leaders come and go in, no card is promised twice."""

import hypothesis

from engine.lives import NODES, Lives
from support import thorough

TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(
    max_examples=thorough.examples(80),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


def check(lives: Lives) -> None:
    """Check all that holds always."""
    lives.holds_are_true()
    lives.cards_are_open_where_agents_renew()
    lives.most_that_fall_together_are_suspects()
    lives.suspicion_ends()


def test_two_that_are_left_and_fall_together_are_reported() -> None:
    """They are all agents that were alive, yet too few to doubt that they died."""
    lives = Lives()
    for pair in (set(NODES[:2]), set(NODES[2:4])):
        lives.die(pair, 200)
        check(lives)
    assert lives.reported == set(NODES[:4])
    lives.lead()

    lives.die(set(NODES[4:]), 70)

    check(lives)
    assert (lives.reported, lives.ledger.suspects) == (set(NODES), 0)


def test_those_that_do_not_come_back_with_most_are_reported() -> None:
    """When a mass silence is over, two more are silent: that is theirs."""
    lives = Lives()
    lives.all_die(200)
    check(lives)
    assert (lives.reported, lives.ledger.suspects) == (set(), len(NODES))

    for _ in range(2):
        lives.come_back(set(NODES[2:]), 70)
        check(lives)

    assert (lives.reported, lives.ledger.suspects) == (set(NODES[:2]), 0)
