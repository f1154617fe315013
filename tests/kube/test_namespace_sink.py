"""The labels of Namespaces, from the watch to the terms that ask for them."""

from berth_crds import wire
from berth_operator.kube import namespace_sink
from berth_operator.scheduling import pod_index
from berth_operator.translate import raw
from support import ledgers


def test_labels_of_namespaces_come_and_go() -> None:
    """Each has its name as a label, also before it was read, and after."""
    ledger = ledgers.with_nodes(1)
    sink, pods = namespace_sink.NamespaceSink(ledger), ledger.inventory.pods
    named = {pod_index.NAME_LABEL: "blue"}

    assert pods.labels_of_namespace("blue") == named
    sink.upserted(raw.Namespace(wire.Meta("blue", labels={"team": "b"})))
    assert pods.labels_of_namespace("blue") == {**named, "team": "b"}
    sink.deleted(wire.Meta("blue"))
    assert pods.labels_of_namespace("blue") == named
