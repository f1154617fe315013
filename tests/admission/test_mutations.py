"""What the webhook changes in a pod; that it is what the policies do is tried on the API server."""

import base64
from typing import Any, Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import errors
from berth_operator.admission import webhook

FIRST: Final = {"name": "FIRST", "value": "1", "unknown": [{}]}


def patch(path: str, spec: dict[str, Any], before: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return what is to be changed in a pod of this spec."""
    asked = {
        "uid": "u-1",
        "object": {"spec": spec},
        "oldObject": None if before is None else {"spec": before},
    }
    answer = msgspec.json.decode(
        webhook.review(msgspec.json.encode({"request": asked}), webhook.MUTATIONS[path])
    )
    response = answer.pop("response")
    assert answer == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert (response["uid"], response["allowed"]) == ("u-1", True)
    assert ("patch" in response) == ("patchType" in response)
    operations: list[dict[str, Any]] = msgspec.json.decode(base64.b64decode(response.get("patch", "W10=")))
    return operations


def fed(container: str) -> list[dict[str, Any]]:
    """Return the variables of a container that the bind feeds."""
    return [
        {
            "name": name,
            "valueFrom": {
                "fieldRef": {"fieldPath": f"metadata.annotations['{container}.devices.berth.dev/{field}']"}
            },
        }
        for name, field in (
            ("NVIDIA_VISIBLE_DEVICES", "uuids"),
            ("BERTH_GPU_MEMORY", "memory"),
            ("BERTH_GPU_CORE", "core"),
        )
    ]


def test_every_container_reads_its_own_annotations() -> None:
    """Init containers too; what the pod says of these variables goes, and its others follow as they are."""
    own = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, FIRST, {"name": "BERTH_GPU_CORE"}]
    spec = {
        "initContainers": [{"name": "a", "env": None}],
        "containers": [{"name": "b", "env": own}, {"name": "c"}],
    }

    assert patch("/env", spec) == [
        {"op": "add", "path": "/spec/initContainers/0/env", "value": fed("a")},
        {"op": "add", "path": "/spec/containers/0/env", "value": [*fed("b"), FIRST]},
        {"op": "add", "path": "/spec/containers/1/env", "value": fed("c")},
    ]


def test_a_pod_that_becomes_ours_gets_all_that_ours_have() -> None:
    """The name of the scheduler comes with the variables."""
    spec = {"containers": [{"name": "b"}]}
    scheduler = {"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER_NAME}

    assert patch("/scheduler-name", spec) == [scheduler, *patch("/env", spec)]


def test_only_a_container_that_is_added_is_blinded() -> None:
    """What was there before must stay as it is, or the server refuses the change."""
    void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    old = {"name": "old", "env": [FIRST]}
    new = {"name": "new", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, FIRST]}

    assert patch("/ephemeral", {"ephemeralContainers": [old, new]}, {"ephemeralContainers": [old]}) == [
        {"op": "add", "path": "/spec/ephemeralContainers/1/env", "value": [void, FIRST]}
    ]
    assert patch("/ephemeral", {"ephemeralContainers": [old]}, {"ephemeralContainers": [old]}) == []


@pytest.mark.parametrize("path", webhook.MUTATIONS)
def test_a_pod_without_containers_stays_as_it_is(path: str) -> None:
    """The server refuses it anyway, for its own reasons."""
    assert [one for one in patch(path, {}) if one["path"] != "/spec/schedulerName"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"request": {"object": {}}}',
        b'{"request": {"uid": "u", "object": {"spec": {"containers": 7}}}}',
        b'{"request": {"uid": "u", "object": {"spec": {"containers": [{"env": [7]}]}}}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    """An answer to something else would be no answer."""
    with pytest.raises(errors.DECODE_ERRORS):
        webhook.review(body, webhook.MUTATIONS["/env"])
