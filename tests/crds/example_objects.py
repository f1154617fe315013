"""Objects of our kinds on the cluster, under names that no other test uses."""

import json
import pathlib
import uuid
from typing import Any

import yaml

from berth_crds import names, schema
from testbed import cluster as clusters

Object = dict[str, Any]

HERE = pathlib.Path(__file__).parent
CRDS = HERE.parents[1] / "crds"
PLURAL = {kind.resource.kind.lower(): kind.resource.plural for kind in schema.KINDS}


def example(kind: str) -> Any:
    """Read an example, by its kind in lowercase."""
    return yaml.safe_load((HERE / "examples" / f"{kind}.yaml").read_text(encoding="utf-8"))


class ExampleObjects:
    """Makes objects out of the examples, sends them and reads them back."""

    def __init__(self, cluster: clusters.Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def make(self, kind: str) -> Object:
        """Return an example with a name of its own."""
        made: Object = example(kind)
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

    def get(self, *words: str) -> str:
        """Run `kubectl get` in the namespace."""
        return self.cluster.kubectl("-n", self.namespace, "get", *words)

    def read(self, body: Object) -> Any:
        """Read an object back."""
        kind = f"{PLURAL[body['kind'].lower()]}.{names.GROUP}"
        return json.loads(self.get(kind, body["metadata"]["name"], "-o", "json"))
