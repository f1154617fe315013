"""What a placement becomes: the annotations of the Binding, and the manifest of the bound pod."""

import copy
import json
from typing import Any, Final

from berth_crds import allocation, names
from berth_operator.scheduling import decisions
from berth_operator.translate import held_devices

TERM: Final = "simulation/0"
SCHEDULED: Final = "PodScheduled"


def allocation_json(placement: decisions.Placement) -> dict[str, Any] | None:
    """Return the allocation as in JSON; None for a pod without devices."""
    if not placement.grants:
        return None
    found: dict[str, Any] = json.loads(allocation.encode(held_devices.allocation_of(placement)))
    return found


def annotations(placement: decisions.Placement) -> dict[str, str]:
    """Return all annotations that the Binding would have."""
    return held_devices.annotations(placement, term=TERM)


def bound_manifest(body: dict[str, Any], placement: decisions.Placement) -> dict[str, Any]:
    """Return a pod's manifest as it would be once it is bound."""
    body = copy.deepcopy(body)
    meta, spec, status = (body.get(part) or {} for part in ("metadata", "spec", "status"))
    meta["annotations"] = {**(meta.get("annotations") or {}), **annotations(placement)}
    meta["labels"] = {**(meta.get("labels") or {}), names.FENCED_LABEL: "true"}
    spec["nodeName"] = placement.node
    if status.get("conditions"):
        status["conditions"] = [_scheduled(one) for one in status["conditions"]]
    return body | {"metadata": meta, "spec": spec} | ({"status": status} if status else {})


def _scheduled(condition: dict[str, Any]) -> dict[str, Any]:
    """Return a condition; PodScheduled becomes true."""
    return {"type": SCHEDULED, "status": "True"} if condition.get("type") == SCHEDULED else condition
