"""Objects of our kinds on the cluster, under names that no other test uses."""

import json
import pathlib
import uuid
from typing import Any

import yaml

from berth_crds import schema
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
        self.put(made)
        return made

    def put(self, body: Object, *, dry_run: bool = False) -> None:
        """Create an object, or only ask whether that is possible; raise `ApiError` if it is not."""
        query = "fieldValidation=Strict&dryRun=All" if dry_run else "fieldValidation=Strict"
        self.cluster.send("POST", f"{self._path(body)}?{query}", body)

    def replace_status(self, body: Object) -> None:
        """Replace the status of an object that was created; raise `ApiError` if it is refused."""
        body = body | {"metadata": self.read(body)["metadata"]}
        self.cluster.send("PUT", f"{self._path_of(body)}/status?fieldValidation=Strict", body)

    def send(self, *words: str, body: Object) -> str:
        """Run a kubectl command that reads an object."""
        return self.cluster.kubectl(*words, "-f", "-", stdin=json.dumps(body))

    def get(self, *words: str) -> str:
        """Run `kubectl get` in the namespace."""
        return self.cluster.kubectl("-n", self.namespace, "get", *words)

    def read(self, body: Object) -> Any:
        """Read an object back."""
        return self.cluster.read(self._path_of(body))

    def _path(self, body: Object) -> str:
        where = f"namespaces/{self.namespace}/" if "namespace" in body["metadata"] else ""
        return f"/apis/{body['apiVersion']}/{where}{PLURAL[body['kind'].lower()]}"

    def _path_of(self, body: Object) -> str:
        return f"{self._path(body)}/{body['metadata']['name']}"
