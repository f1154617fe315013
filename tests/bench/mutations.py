"""Changes of a pod, for `make fuzz`: each makes it a little more, a little less, or something else.

None knows what is slow. Applied again and again to what was slow, they find what is slower.
"""

import copy
from typing import Any, Final

from bench import placement_rules, pod_generator


def _containers(made: pod_generator.Pod) -> list[dict[str, Any]]:
    spec = made["spec"]
    return [*spec["containers"], *spec.get("initContainers", ())]


def _multiply(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Have a container several times."""
    found = made["spec"]["containers"]
    one = draw.dice.choice(found)
    count = draw.dice.choice((1, 3, 10, 60, 120))
    found += [copy.deepcopy(one) | {"name": f"x{len(found) + at}"} for at in range(count)]


def _thin_out(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Leave containers out."""
    found = made["spec"]["containers"]
    made["spec"]["containers"] = draw.dice.sample(found, draw.dice.randint(1, len(found)))


def _other_number(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Change an amount."""
    asked = draw.dice.choice(_containers(made))["resources"]["limits"]
    if asked:
        key = draw.dice.choice(sorted(asked))
        asked[key] = str(draw.dice.choice((0, 1, 2, 3, 5, 8, 17, 40, 50, 99, 100, 101, 200, 800, "3Gi", "x")))


def _shift(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Make the amounts of all containers differ."""
    for at, one in enumerate(_containers(made)):
        asked = one["resources"]["limits"]
        for key in asked:
            if asked[key].isdigit():
                asked[key] = str(int(asked[key]) + at * draw.dice.choice((0, 1, 2)))


def _other_amounts(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Have a container ask for something else."""
    one = draw.dice.choice(_containers(made))
    asked = {key: str(value) for key, value in draw.amounts().items()}
    one["resources"] = {"limits": asked, "requests": asked}


def _early(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Have containers start earlier."""
    count = draw.dice.choice((1, 3, 40))
    made["spec"].setdefault("initContainers", []).extend(draw.starter(1000 + at) for at in range(count))


def _wish(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Wish for something more."""
    made["metadata"]["annotations"].update(draw.wish())


def _forget(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Leave a wish out."""
    if made["metadata"]["annotations"]:
        del made["metadata"]["annotations"][draw.dice.choice(sorted(made["metadata"]["annotations"]))]


def _elsewhere(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Say more of the place."""
    placement_rules.add(draw.dice, made["spec"])


def _ports(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Ask for ports of the node, at addresses with any text: the API server takes all."""
    address = draw.dice.choice(("", "10.0.0.1", "}", "{", '"hostPort":'))
    count = draw.dice.choice((1, 30, 2000))
    ports = [{"containerPort": at, "hostPort": at, "hostIP": address} for at in range(1, count + 1)]
    draw.dice.choice(_containers(made))["ports"] = ports


def _join(draw: pod_generator.PodGenerator, made: pod_generator.Pod) -> None:
    """Have the containers of another pod as well."""
    other = draw.parent()
    found = made["spec"]["containers"]
    found += [
        one | {"name": f"y{len(found) + at}"} for at, one in enumerate(other["spec"]["containers"][:200])
    ]
    made["metadata"]["annotations"] |= other["metadata"]["annotations"]


ALL: Final = (
    *(_multiply, _thin_out, _other_number, _other_number, _shift, _other_amounts, _other_amounts),
    *(_early, _wish, _wish, _forget, _elsewhere, _ports, _join),
)
