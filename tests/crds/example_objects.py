"""Objects of our kinds on the cluster, under names that no other test uses."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from berth_crds import names, schema
from testbed import cluster as clusters

Object = dict[str, Any]

PLURAL = {kind.name.lower(): kind.plural for kind in schema.KINDS}


class ExampleObjects:
    """Makes objects out of the examples, sends them and reads them back."""

    def __init__(self, cluster: clusters.Cluster, namespace: str, example: Callable[[str], Object]) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.example = example

    def make(self, kind: str) -> Object:
        """Return an example with a name of its own."""
        made = self.example(kind)
        name = f"{made['metadata']['name']}-{uuid.uuid4().hex[:8]}"
        made["metadata"] = {"name": name} | ({"namespace": self.namespace} if kind == "gpupod" else {})
        if kind == "device":
            made["spec"]["node"] = name
        return made

    def create(self, kind: str) -> Object:
        """Create an example, and return what was sent."""
        made = self.make(kind)
        self.send("create", body=made)
        return made

    def replace_status(self, body: Object) -> None:
        """Replace the status of an object that was created."""
        body = body | {"metadata": self.read(body)["metadata"]}
        self.send("replace", "--subresource=status", body=body)

    def send(self, *words: str, body: Object) -> str:
        """Run a kubectl command that reads an object."""
        return self.cluster.kubectl(*words, "-f", "-", stdin=json.dumps(body))

    def read(self, body: Object) -> Object:
        """Read an object back."""
        words = [
            "get",
            f"{PLURAL[body['kind'].lower()]}.{names.GROUP}",
            body["metadata"]["name"],
            "-o",
            "json",
        ]
        found: Object = json.loads(self.cluster.kubectl("-n", self.namespace, *words))
        return found


def spec(made: Object) -> Object:
    """Return the spec of an object, for changes in one expression."""
    found: Object = made["spec"]
    return found


def cards(made: Object) -> list[Object]:
    """Return the devices of a Device."""
    found: list[Object] = made["spec"]["devices"]
    return found
