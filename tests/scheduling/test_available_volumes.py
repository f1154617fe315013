"""Which volumes would do for claims is found once for a kind of claims, and with little work for any pod."""

import dataclasses
import random
from typing import Any, Final
from unittest import mock

import pytest

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.nodes.labels import Labels
from berth_operator.scheduling.volumes import available, claim_kinds, facts, matching, sharing
from berth_operator.scheduling.volumes.available import AvailableVolumes
from berth_operator.scheduling.volumes.claim_kinds import kind_of
from berth_operator.scheduling.volumes.index import Volumes
from berth_operator.scheduling.volumes.reach import reachable
from scheduling.volume_scenes import ALL, HOST, LOCAL, cluster, feasible, told
from support import builders
from support import volumes as make

HOSTS: Final = ("a", "b", "c")
ZONES: Final = ("x", "y")
PLACES: Final = [
    builders.node(f"{host}{zone}", labels={HOST: host} | ({make.ZONE: zone} if zone else {}))
    for host in HOSTS
    for zone in (*ZONES, "")
]


def among(key: str, *values: str, operator: str = "In") -> nodes.LabelExpression:
    """Return an expression about one label."""
    return nodes.LabelExpression(key, operator, values)


AFFINITIES: Final[tuple[facts.Terms | None, ...]] = (
    None,
    (),
    (nodes.Term((among(HOST, "a"),)),),
    (nodes.Term((among(HOST, "a", "b"),)), nodes.Term((among(HOST, "a"),))),
    (nodes.Term((among(HOST, "a"),)), nodes.Term((among(make.ZONE, "x"),))),
    (nodes.Term((among(HOST, "a"), among(make.ZONE, "x"))),),
    (nodes.Term((among(make.ZONE, "x", operator="NotIn"),)),),
    (nodes.Term((), (nodes.LabelExpression("metadata.name", "In", ("bx",)),)),),
)


def local(name: str, host: str, **fields: Any) -> facts.Volume:
    """Return a volume on the disk of a node."""
    return make.volume(name, storage_class=make.LOCAL, host=host, **fields)


def wanted(name: str, **fields: Any) -> facts.Claim:
    """Return a claim for such a volume."""
    return make.claim(name, storage_class=make.LOCAL, **fields)


@pytest.mark.parametrize("seed", range(20))
def test_each_node_finds_what_it_can_reach(seed: int) -> None:
    """While volumes come and go: one node by itself and all at once, as `reachable` says of each."""
    dice, there = random.Random(seed), dict[str, facts.Volume]()
    claim, of_class = wanted("one"), AvailableVolumes()
    for at in range(60):
        if there and dice.random() < 0.4:
            of_class.remove(there.pop(dice.choice(sorted(there))))
        else:
            size = dice.choice(("1Mi", "2Gi"))
            made = dataclasses.replace(
                local(f"v{at}", "", size=size), affinity=dice.choice(AFFINITIES), is_deleted=at % 7 == 0
            )
            there[made.name] = made
            of_class.add(made)
    suiting = [one for one in there.values() if one.size > 1 << 30 and not one.is_deleted]
    taken = {one.name for one in suiting if dice.random() < 0.3}
    rows = of_class.serving(kind_of(claim))
    assert rows is not None
    fitting = matching.Fitting(of_class, rows)

    within = [{one.name for one in suiting if reachable(one, node)} for node in PLACES]
    assert [sorted(one.name for one in fitting.reachable(node)) for node in PLACES] == [*map(sorted, within)]
    many = matching.Group([claim] * len(there), fitting=fitting)
    served = sharing.claims_served(taken, [many], Labels(PLACES))
    assert served.tolist() == [[len(names - taken) for names in within]]


def test_what_nobody_has_asked_for_lately_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is found again; nothing is kept once a volume comes or goes."""
    of_class, kinds = AvailableVolumes(), [kind_of(wanted("c", size=f"{at}Mi")) for at in range(1, 5)]
    of_class.add(local("v", "n1"))
    monkeypatch.setattr(available, "MOST_KINDS", 3)
    first = [of_class.serving(kind) for kind in kinds[:3]]
    assert of_class.serving(kinds[0]) is first[0]
    of_class.serving(kinds[3])

    assert of_class.serving(kinds[0]) is first[0]
    assert of_class.serving(kinds[1]) is not first[1]
    of_class.add(local("w", "n1"))
    found = of_class.serving(kinds[0])
    assert found is not None
    assert found.tolist() == [True, True]


def test_kinds_that_no_volume_fits_drive_out_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    of_class = AvailableVolumes()
    of_class.add(local("v", "n1"))
    monkeypatch.setattr(available, "MOST_KINDS", 3)
    first = of_class.serving(kind_of(wanted("c")))

    assert first is not None
    assert [of_class.serving(kind_of(wanted("c", size=f"{at}Ti"))) for at in range(1, 9)] == [None] * 8
    assert of_class.serving(kind_of(wanted("c"))) is first


def counted(owner: Any, name: str) -> Any:
    """Count the calls of a function while it does its work."""
    return mock.patch.object(owner, name, autospec=True, side_effect=getattr(owner, name))


def scene(claims: list[facts.Claim], nodes_: int = 100) -> Volumes:
    """Return what is known where each node has two disks, and there are these claims."""
    known = Volumes()
    disks = [local(f"{side}{at}", f"n{at}") for at in range(nodes_) for side in ("left", "right")]
    make.put(known, LOCAL, *disks, *claims)
    return known


@pytest.mark.parametrize(
    "fields",
    [
        [{} for _ in range(64)],
        [{"size": f"{at + 1}Mi"} for at in range(64)],
        [
            {"selector": {"matchExpressions": [{"key": f"k{at}", "operator": "DoesNotExist"}]}}
            for at in range(64)
        ],
    ],
    ids=["alike", "of other sizes", "with other selectors"],
)
def test_a_pod_with_very_many_claims_is_little_work(fields: list[dict[str, Any]]) -> None:
    """Volumes are compared with few kinds of claims, and not again for each node or the next pod."""
    claims = [wanted(f"c{at}", **some) for at, some in enumerate(fields)]
    known = scene(claims)
    kinds = {kind_of(one) for one in claims[: matching.MOST_KINDS]}
    with counted(AvailableVolumes, "_find_serving") as asked:
        among_all = matching.groups(known, claims)
        for at in range(100):
            node = builders.node(f"n{at}", labels={HOST: f"n{at}"})
            assert len(matching.choose_for_groups(known, among_all, node)) == 2
        matching.groups(known, claims)

    assert asked.call_count == len(kinds)


def test_volumes_that_do_not_fit_are_not_looked_at_one_by_one() -> None:
    """Of 64 kinds of claims, each with 15 conditions that hold of all volumes and one of none."""
    holding = [{"key": f"k{at}", "operator": "DoesNotExist"} for at in range(15)]
    claims = [
        wanted(f"c{at}", selector={"matchExpressions": [*holding, {"key": f"z{at}", "operator": "Exists"}]})
        for at in range(64)
    ]
    work = []
    for nodes_ in (1, 100):
        known = scene(claims, nodes_)
        with (
            counted(affinity, "holds") as conditions,
            counted(claim_kinds, "may_serve") as volumes,
        ):
            assert matching.groups(known, claims) == []
        work.append([one.call_count for one in (conditions, volumes)])

    assert work == [[64 * 16, 0]] * 2


def labels_of(dice: random.Random) -> dict[str, str]:
    """Return some labels, with few and with many different values."""
    given = {"disk": dice.choice("ab"), "serial": str(dice.randrange(9)), "rack": "1", "odd": "x"}
    return {key: value for key, value in given.items() if dice.random() < 0.6}


def condition(dice: random.Random) -> nodes.LabelExpression:
    """Return an expression about such labels, or about one that no volume has."""
    values = [dice.choice(("a", "b", "1", "3", "x", "none")) for _ in range(dice.randrange(3))]
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Unknown"))
    return among(dice.choice(("disk", "serial", "rack", "odd", "none")), *values, operator=operator)


@pytest.mark.parametrize("seed", range(20))
def test_all_volumes_at_once_are_found_as_one_by_one(seed: int) -> None:
    """While they come and go: by size, sort and labels, as `serves` says of each."""
    dice, there = random.Random(seed), dict[str, facts.Volume]()
    of_class = AvailableVolumes()
    for at in range(80):
        if there and dice.random() < 0.4:
            of_class.remove(there.pop(dice.choice(sorted(there))))
        else:
            made = local(
                f"v{at}",
                "n1",
                size=dice.choice(("1Mi", "2Gi", "9E", "100E")),
                modes=dice.choice((("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"))),
                volumeMode=dice.choice((facts.FILESYSTEM, facts.FILESYSTEM, "Block")),
                labels=labels_of(dice),
            )
            there[made.name] = dataclasses.replace(made, is_deleted=dice.random() < 0.1)
            of_class.add(there[made.name])
        asked = wanted(
            "c",
            size=dice.choice(("1", "1Gi", "9E", "50E", "200E")),
            modes=dice.choice(((), ("ReadOnlyMany",))),
        )
        selector = nodes.Term(tuple(condition(dice) for _ in range(dice.randrange(3))))
        kind = kind_of(dataclasses.replace(asked, selector=dice.choice((selector, None))))

        rows = of_class.serving(kind)
        suiting = rows.nonzero()[0].tolist() if rows is not None else []
        found = sorted(of_class.volume(row).name for row in suiting)
        assert found == sorted(name for name, one in there.items() if claim_kinds.serves(one, kind))
        assert len(of_class) == len(there)


def test_claims_of_too_many_kinds_get_no_volume_that_exists() -> None:
    """The smallest kinds are compared, and of the next one it is said that there is none."""
    claims = [wanted(f"c{at}", size=f"{at + 1}Mi") for at in range(matching.MOST_KINDS + 1)]
    disks = [local(f"v{at}", "n1") for at in range(20)]
    inventory = cluster(LOCAL, *claims, *disks)
    names = [one.name for one in claims]

    assert feasible(inventory, make.using(*names[:-1])) == ("n1",)
    assert feasible(inventory, make.using(*names)) == ()
    assert f"1 has no available persistent volume for claim {names[-1]}" in told(
        inventory, make.using(*names)
    )
    inventory.volumes.put_volume(local("meant", "n1", claimed=names[-1], phase="Available"))
    assert feasible(inventory, make.using(*names)) == ("n1",)


def test_groups_of_claims_share_the_volumes_of_a_node() -> None:
    """Two kinds of claims, and any volume would do for each: a node needs as many as there are claims."""
    claims = [wanted("a", size="1Mi"), wanted("b", size="1Mi"), wanted("c", size="2Mi")]
    disks = [local(f"{node}-{at}", node) for at, node in enumerate(("n1", "n1", "n2", "n2", "n2", "n3"))]
    inventory = cluster(LOCAL, *claims, *disks)

    assert feasible(inventory, make.using("a", "b", "c")) == ("n2",)
    assert feasible(inventory, make.using("a", "c")) == ("n1", "n2")
    assert feasible(inventory, make.using("c")) == ("n1", "n2", "n3")
    assert ALL == ("n1", "n2", "n3", "n4")
