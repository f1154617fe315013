"""The allocator against an exhaustive search on tiny nodes, and what must hold for every answer."""

import collections
import random

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator, finder, packing, requests, views
from scheduling.devices import brute, generate

MOST_WAYS = 20_000
PREFER = st.sampled_from(allocator.Prefer)


@hypothesis.settings(max_examples=6000, deadline=None)
@hypothesis.given(generate.nodes(), generate.pods(), PREFER)
def test_finds_an_answer_exactly_where_there_is_one(
    view: views.View, request: requests.Request, prefer: allocator.Prefer
) -> None:
    """A pod is placed if and only if some way to place it exists."""
    hypothesis.assume(generate.effort(view, request) <= MOST_WAYS)
    exists = next(brute.ways(view, request), None) is not None

    found = allocator.find(view, request, prefer=prefer)

    assert (found is not None) == exists
