"""Asks both schedulers the same, and counts what they agree on."""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from parity import own, scenes
from parity.scenes import Answer, Cluster, Object, Question
from parity.stock import Stock


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """A question, with all objects as the API server returned them, and both answers."""

    question: Question
    stock: Answer
    own: Answer

    @property
    def left_out(self) -> tuple[str, ...]:
        """What one of the two does not serve, so that there is nothing to compare."""
        return self.own.left_out or self.stock.left_out or scenes.misread(self.question.pod)

    @property
    def differs(self) -> bool:
        """Whether the answers differ in what they should not."""
        return not self.left_out and self.own != scenes.expected(self.stock, self.question)


async def compare(stock: Stock, cluster: Cluster, pods: Sequence[Object]) -> list[Compared]:
    """Return the answers to those of the pods that the API server takes."""
    loaded = await stock.load(cluster)
    asked = await stock.ask(pods)
    berth = own.Berth(loaded)
    return [
        Compared(Question(loaded, one.pod), one.answer, berth.answer(one.pod))
        for one in asked
        if one is not None
    ]


async def compare_one(stock: Stock, question: Question) -> Compared | None:
    """Return the answers to one question; None if the API server does not take the pod."""
    found = await compare(stock, question.cluster, [question.pod])
    return found[0] if found else None


class Tally:
    """Counts of what was compared."""

    def __init__(self) -> None:
        self.compared = 0
        self.left_out: collections.Counter[str] = collections.Counter()
        self.pods_left_out = 0
        self.refused = 0  # By the API server.
        self.differing = 0
        self.not_repeated = 0  # Differences that were not there when asked again.
        self.sizes: collections.Counter[str] = collections.Counter()

    def add(self, one: Compared) -> None:
        """Count a comparison."""
        if one.left_out:
            self.pods_left_out += 1
            self.left_out.update(set(one.left_out))
            return
        self.compared += 1
        found, there = len(one.stock.nodes), len(one.question.cluster.nodes)
        size = "gated" if one.stock.gated else "all" if found == there else "some" if found else "no"
        self.sizes[size] += 1

    def lines(self) -> Iterator[str]:
        """Yield what people want to know at the end."""
        sizes = ", ".join(f"{size} nodes {count}" for size, count in sorted(self.sizes.items()))
        yield f"compared: {self.compared} pods ({sizes})"
        yield f"left out: {self.pods_left_out} pods, for what one of the two does not serve"
        for field, count in (+self.left_out).most_common():
            yield f"  {count:>6}  {field}"
        yield f"refused by the API server: {self.refused}"
        yield f"not there when asked again: {self.not_repeated}"
        yield f"differences: {self.differing}"
