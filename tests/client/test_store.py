"""What an informer has passed on is gone through in small steps, however much it is."""

from berth_crds import wire
from berth_crds.client import store
from client.informers import ConfigMap, RecordingSink
from support import counted


def test_what_a_list_lacks_is_forgotten_one_by_one() -> None:
    """Thousands that vanish while nobody looks are not put in order first, nor compared all at once."""
    kept = store.Store("things", RecordingSink())
    for at in range(2000):
        meta = wire.Meta(name=counted.Word(f"p{at}"), uid=f"u{at}", resource_version="5")
        kept.upsert(ConfigMap(meta))
    seen = {("", f"p{at}") for at in range(0, 2000, 2)}
    counted.taken()

    most = max(counted.taken() for _ in kept.delete_missing(seen))

    assert len(kept) == 1000
    assert most < 20


def test_revisions_are_found_by_title_and_by_uid() -> None:
    """Of what is there, in the revision that was seen last; of what is not there nothing."""
    kept = store.Store("things", RecordingSink())
    for meta in (wire.Meta("n1", "", "u1", "5"), wire.Meta("p", "ml", "u2", "6"), wire.Meta("q", "ml", "u3")):
        kept.upsert(ConfigMap(meta))

    assert kept.revisions_of({"n1", "ml/p", "u3", "p", "ml/u2", "none"}) == {"n1": "5", "ml/p": "6", "u3": ""}
    assert kept.revisions_of(set()) == {}
