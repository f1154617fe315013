"""Pods for `make fuzz`: plausible ones, absurd ones, known bad ones, and mutations of all of these.

Topologies are drawn, too: which odd node (`support.irregular_topologies`) has which links. Everything is
drawn from one seeded generator, and pods are plain dicts, as the API would show them. A pod that took long is
remembered, and its like are drawn again, changed by `mutations`: so the search finds its way to what is slow
without knowing what that is.
"""

import collections
import copy
import json
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from bench import placement_rules
from berth_crds import aliases, names
from support import irregular_topologies

Pod = dict[str, Any]


class Board(NamedTuple):
    """Which odd node has which links; `salt` varies how many there are between two cards."""

    at: int
    sort: str
    salt: int = 0


Mutation = Callable[["PodGenerator", Pod], None]

MODELS: Final = (
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB",
    "NVIDIA H200",
    "NVIDIA L40S",
    "NVIDIA A10",
    "NVIDIA L4",
    "Tesla V100-SXM2-32GB",
    "Tesla T4",
)
PROFILES: Final = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.5gb", "9g.999gb")
SAVED: Final = 32  # Slow pods that are mutated further, of each kind.
LONGEST: Final = 1_400_000  # Bytes; the API server takes no more.
MOST_ANNOTATIONS: Final = 250_000  # Bytes of all annotations, likewise.

# ---------------------------------------------------------------- known bad ones


def holding(name: str, limits: Mapping[str, object]) -> dict[str, Any]:
    """Return a container that asks for this."""
    asked = {key: str(value) for key, value in limits.items()}
    return {"name": name, "image": "example.com/x", "resources": {"limits": asked, "requests": asked}}


def pod(*containers: dict[str, Any], annotations: Mapping[str, str] = {}, **spec: Any) -> Pod:
    """Return a pod of ours."""
    plain = {"schedulerName": names.SCHEDULER_NAME, "containers": list(containers)}
    return {"metadata": {"annotations": dict(annotations), "labels": {}}, "spec": plain | spec}


def odd_shares(count: int, off: int = 0) -> Pod:
    """Return a pod of many containers whose shares are all different."""
    asks = ((2 + at % 7, 1 + (at + off) % 17) for at in range(count))
    return pod(
        *(
            holding(f"c{at}", {names.GPU_SHARED: cards, names.GPU_MEMORY_RATIO: cards * percent})
            for at, (cards, percent) in enumerate(asks)
        )
    )


ONE_CARD: Final = holding("main", {names.NVIDIA_GPU: 1})
EIGHT: Final = holding("main", {names.NVIDIA_GPU: 8})


# Whole cards, for one container or several.
LINKED: Final = ((2,), (4,), (8,), (30,), (3, 5), (2, 2, 2))


def linked(*counts: int, policy: str) -> Pod:
    """Return a pod whose containers ask for so many cards each, joined by NVLink."""
    asks = (holding(f"c{at}", {names.NVIDIA_GPU: count}) for at, count in enumerate(counts))
    return pod(*asks, annotations={names.SCOPE: "nvlink", names.SCOPE_POLICY: policy})


def seeds() -> list[Pod]:
    """Return pods that have held operators up, and some that do not."""
    choices = "(?:|)" * 17 + "(?=[À-ɏa-z0-9-]{7})" * 8 + "z"
    classes = "(?:|)" * 17 + "[À-ɏa-z0-9-]{7}" * 8 + "z"
    tight = [holding(f"c{at}", {names.GPU_CORE: 40, names.GPU_MEMORY: "1Gi"}) for at in range(17)]
    odd = [
        holding(f"c{at}", {names.GPU_CORE: 23 + 7 * at % 19, names.GPU_MEMORY: f"{9 + 5 * at % 17}Gi"})
        for at in range(24)
    ]
    turns = [
        holding(f"i{at}", {names.GPU: 30 + at % 41}) | ({"restartPolicy": "Always"} if at % 2 else {})
        for at in range(100)
    ]
    cut = [holding(f"m{at}", {f"nvidia.com/mig-{one}": 5}) for at, one in enumerate(PROFILES[:4])]
    beside = holding("main", {names.NVIDIA_GPU: 3, names.RDMA: 300})
    away = placement_rules.away_from_pods(terms=64, expressions=4)
    return [
        pod(ONE_CARD),
        pod(EIGHT),
        pod(holding("main", {names.GPU: 25, "cpu": 4, "memory": "16Gi"})),
        pod(ONE_CARD, annotations={names.MODEL_PATTERN: choices}),
        pod(ONE_CARD, annotations={names.MODEL_PATTERN: classes}),
        pod(ONE_CARD, annotations={names.MODEL: ",".join(f"m{at}" for at in range(30_000))}),
        odd_shares(100),
        odd_shares(100, 5),
        odd_shares(20),
        pod(*tight),
        pod(*odd),
        pod(ONE_CARD, initContainers=turns),
        pod(*cut),
        pod(beside, annotations={names.JOINT: "gpu,rdma", names.SCOPE: "pcie"}),
        *(linked(*counts, policy=policy) for counts in LINKED for policy in ("required", "preferred")),
        pod(ONE_CARD, affinity=away),
        pod(*[holding(f"c{at}", {}) for at in range(2000)]),
        pod(*[holding(f"c{at}", {names.NVIDIA_GPU: 1}) for at in range(2000)]),
    ]


# ---------------------------------------------------------------- what pods are made of


class PodGenerator:
    """Draws pods, all from one seed."""

    def __init__(self, seed: int, uuids: tuple[str, ...], mutations: Sequence[Mutation]) -> None:
        self._mutations = mutations
        self.dice = random.Random(seed)
        self._uuids = uuids
        self._known = seeds()
        self._slow: dict[str, list[tuple[float, bytes]]] = collections.defaultdict(list)  # Pods, pickled.
        self._first = list(reversed(self._known))

    def next(self) -> Pod:
        """Return a pod: the known bad ones first, then anything."""
        if self._first:
            return copy.deepcopy(self._first.pop())
        dice = self.dice
        made = self._fresh() if dice.random() < 0.4 else self.parent()
        for _ in range(dice.choice((0, 1, 1, 2, 3, 6))):
            self._mutate(made)
        return _acceptable(made)

    def topology(self) -> Board:
        """Change the links of an odd node."""
        sorts = sorted(irregular_topologies.SORTS)
        return Board(self.dice.randrange(len(sorts)), self.dice.choice(sorts), self.dice.randrange(1 << 10))

    def took(self, made: Pod, spent: Mapping[str, float]) -> None:
        """Remember a pod if few took longer; pickled, for as objects these would look like a leak."""
        for part, seconds in spent.items():
            slow = self._slow[part]
            if len(slow) < SAVED or seconds > slow[-1][0]:
                slow.append((seconds, pickle.dumps(made)))
                self._slow[part] = sorted(slow, key=lambda one: -one[0])[:SAVED]

    def parent(self) -> Pod:
        """Return a copy of a pod that was slow, or is known to be bad."""
        if self._slow and self.dice.random() < 0.7:
            _, pickled = self.dice.choice(self._slow[self.dice.choice(sorted(self._slow))])
            return cast(Pod, pickle.loads(pickled))  # noqa: S301  # our own
        return copy.deepcopy(self.dice.choice(self._known))

    def _mutate(self, made: Pod) -> None:
        self.dice.choice(self._mutations)(self, made)

    def _fresh(self) -> Pod:
        dice = self.dice
        most = dice.choice((1, 1, 1, 2, 3, 8, 20, 40, 60, 60, 400))
        made = pod(*(holding(f"c{at}", self.amounts()) for at in range(dice.randint(1, most))))
        if dice.random() < 0.3:
            made["spec"]["initContainers"] = [self.starter(at) for at in range(dice.randint(1, most))]
        for _ in range(dice.choice((0, 0, 0, 0, 1, 1, 2, 5))):
            made["metadata"]["annotations"].update(self.wish())
        if dice.random() < 0.5:
            made["metadata"]["labels"] = placement_rules.labels(dice)
        for _ in range(dice.choice((0, 0, 0, 1, 2))):
            placement_rules.add(dice, made["spec"])
        return made

    def starter(self, at: int) -> dict[str, Any]:
        """Return an init container, which may be a sidecar."""
        lasting = {"restartPolicy": "Always"} if self.dice.random() < 0.4 else {}
        return holding(f"i{at}", self.amounts()) | lasting

    # ------------------------------------------------------------ amounts

    def amounts(self) -> dict[str, object]:
        """Return what one container asks for."""
        dice = self.dice
        asked: dict[str, object] = {}
        if dice.random() < 0.7:
            asked |= {"cpu": dice.choice((1, 4, "500m", 300)), "memory": dice.choice(("1Gi", "64Gi", "9Ti"))}
        asked |= dice.choice(AMOUNTS)(dice)
        if dice.random() < 0.15:
            asked[dice.choice((names.RDMA, names.FPGA))] = dice.choice((1, 30, 50, 100, 200, 800))
        if dice.random() < 0.05:
            asked |= {f"example.com/r{dice.randrange(99)}": 1 for _ in range(dice.choice((1, 5, 70)))}
        return asked

    def text(self) -> str:
        """Return any text."""
        dice = self.dice
        unit = dice.choice(("a", "A100,", "(?:|)", ".*", "1", "é", "\\", "[a-z]{9}", "GPU-1,", "{", "\n"))
        return unit * dice.choice((0, 1, 2, 7, 50, 1000, 60_000))

    # ------------------------------------------------------------ annotations

    def wish(self) -> dict[str, str]:
        """Return one annotation that is read, with something in it."""
        dice = self.dice
        key = dice.choice(KEYS)
        if dice.random() < 0.1:
            return {key: self.text()}
        if dice.random() < 0.02:
            return {f"{names.GROUP}/k{at}": "" for at in range(dice.choice((1, 50, 5000)))}
        return {key: WISHES[key](self)}

    def models(self) -> str:
        """Return a list of models."""
        dice = self.dice
        some = dice.sample(MODELS, dice.randint(1, 4))
        return ",".join([*some, *(f"m{at}" for at in range(dice.choice((0, 0, 0, 60, 70))))])

    def pattern(self) -> str:
        """Return a regular expression, or something like one."""
        dice = self.dice
        return "".join(dice.choice(PIECES) for _ in range(dice.choice((1, 2, 5, 20, 60))))[:300]

    def listed(self) -> str:
        """Return a list of uuids, of cards that there are and others."""
        dice = self.dice
        some = dice.sample(self._uuids, min(len(self._uuids), dice.choice((1, 4, 8, 100, 500, 600))))
        return ",".join([*some, *(f"GPU-{at}" for at in range(dice.choice((0, 0, 10))))])

    def word(self, *words: str) -> str:
        """Return one of these words."""
        return self.dice.choice(words)


Dice = random.Random


def _measured(dice: Dice) -> dict[str, object]:
    cards = dice.choice((1, 1, 2, 3, 5, 8))
    asked: dict[str, object] = {names.GPU_SHARED: cards, names.GPU_MEMORY_RATIO: cards * dice.randint(1, 100)}
    return asked | ({names.GPU_CORE: cards * dice.randint(1, 100)} if dice.random() < 0.5 else {})


def _bytes(dice: Dice) -> dict[str, object]:
    cards = dice.choice((1, 1, 2, 5))
    memory = f"{cards * dice.randint(1, 90_000)}Mi"
    return {names.GPU_SHARED: cards, names.GPU_MEMORY: memory, names.GPU_CORE: cards * dice.randint(1, 100)}


def _instances(dice: Dice) -> dict[str, object]:
    some = dice.sample(PROFILES, dice.randint(1, 3))
    return {f"{names.NVIDIA_MIG_PREFIX}{one}": dice.choice((1, 2, 7, 20)) for one in some}


AMOUNTS: Final[tuple[Callable[[Dice], dict[str, object]], ...]] = (
    lambda dice: {names.NVIDIA_GPU: dice.choice((1, 1, 2, 3, 4, 8, 9, 30, 64))},
    lambda dice: {names.GPU: dice.choice((1, 7, 13, 25, 33, 49, 50, 51, 99, 100, 300))},
    _measured,
    _measured,
    _bytes,
    lambda dice: {names.NVIDIA_GPU_SHARED: dice.choice((1, 2, 7, 31, 64))},
    _instances,
    lambda dice: {dice.choice(tuple(aliases.RESOURCES)): dice.choice((1, 2, 30, 100, 3000))},
    lambda _: {},
)


def _hint(draw: PodGenerator) -> str:
    kind = draw.word("rdma", "gpu", "fpga", "x" * 5000)
    selector = {"matchLabels": {f"l{at}": "b" for at in range(int(draw.word("1", "2", "90")))}}
    return json.dumps({kind: {"selector": selector, "allocateStrategy": draw.word("ApplyForAll", "")}})


def _record(draw: PodGenerator) -> str:
    count = int(draw.word("1", "3", "500"))
    requests = {"alpha.gpu/numgpu": count}
    return json.dumps({"runningcontainer": {f"c{at}": {"requests": requests} for at in range(count)}})


# As many expressions as are read, and texts that are hard to take apart.
LABELS: Final = (
    "gpu: tier=gold; rdma: fabric in (a, b), !slow",
    ",".join(f"l{at} notin (a,b)" for at in range(64)),
    f"{' ' * 32000}a:b:c",
    "," * 32000,
    "a(," * 10000,
    "rdma:a;" * 4000,
)


WISHES: Final[Mapping[str, Callable[[PodGenerator], str]]] = {
    names.MODEL: PodGenerator.models,
    names.AVOID_MODEL: PodGenerator.models,
    names.MODEL_PATTERN: PodGenerator.pattern,
    names.AVOID_MODEL_PATTERN: PodGenerator.pattern,
    names.UUIDS: PodGenerator.listed,
    names.AVOID_UUIDS: PodGenerator.listed,
    names.MEMORY_AT_LEAST: lambda draw: draw.word("1Gi", "40Gi", "79Gi", "1e3", "0." + "0" * 90 + "1"),
    names.SCOPE: lambda draw: draw.word("node", "numa", "pcie", "nvlink"),
    names.SCOPE_POLICY: lambda draw: draw.word("required", "preferred"),
    names.STRATEGY: lambda draw: draw.word("spread", "binpack", "weighted", "fragmentation"),
    names.JOINT: lambda draw: draw.word("gpu,rdma", "rdma,fpga", "gpu,rdma,fpga"),
    names.JOINT_POLICY: lambda draw: draw.word("required", "preferred"),
    names.APPLY: lambda draw: draw.word("rdma=every", "rdma=count", "rdma=whole,fpga=every"),
    names.EXCLUSIVE: lambda draw: draw.word("rdma=pcie", "gpu=device", "gpu=pcie,rdma=device", "gpu=numa"),
    names.LABELS: lambda draw: draw.word("fabric=a", "fabric=b,rail=1", *LABELS),
    names.FUNCTION_LABELS: lambda draw: draw.word("type=general", "type=none", *LABELS),
    names.REPLICAS: lambda draw: draw.word("distributed", "packed"),
    "nvidia.com/use-gputype": PodGenerator.models,
    "nvidia.com/nouse-gputype": PodGenerator.models,
    "scheduling.koordinator.sh/device-allocate-hint": _hint,
    aliases.KUBEGPU_RECORDS[0]: _record,
    "gpu-fraction": lambda draw: draw.word("0.5", "0.125", "1.5"),
    names.GANG: lambda draw: draw.word("a", "b"),
}
KEYS: Final = tuple(WISHES)
PIECES: Final = (
    *("A100", "H", ".", ".*", ".+", "|", "(", ")", "(?:", "){9}", ")*", "{1,40}", "[a-z]", "[À-ɏ]", r"\pL"),
    *("^", "$", "?", "(?!", r"\d{3}", "(a|b|ab)*", "SXM", "-"),
)


# ---------------------------------------------------------------- what an API server takes


def _name_apart(spec: dict[str, Any]) -> None:
    """Give containers that have one name different ones, as an API server wants them."""
    known: set[str] = set()
    for at, one in enumerate((*spec.get("initContainers", ()), *spec["containers"])):
        if one["name"] in known:
            one["name"] = f"{one['name'][:40]}-{at}"
        known.add(one["name"])


def _acceptable(made: Pod) -> Pod:
    """Cut a pod down to what an API server would take."""
    annotations = made["metadata"]["annotations"]
    while sum(len(key) + len(value.encode()) for key, value in annotations.items()) > MOST_ANNOTATIONS:
        annotations.pop(max(annotations, key=lambda key: len(annotations[key])))
    _name_apart(made["spec"])
    while len(json.dumps(made)) > LONGEST:
        containers = made["spec"]["containers"]
        del containers[len(containers) // 2 + 1 :]
        made["spec"].pop("initContainers", None)
    return made
