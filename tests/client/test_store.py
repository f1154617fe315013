"""What an informer has passed on is gone through in small steps, however much it is."""

import collections

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


class LastSink(RecordingSink):
    """A sink for which some objects count last, as their data says."""

    def counts_last(self, thing: ConfigMap) -> bool:
        """Whether the data of an object says so."""
        return bool(thing.data.get("last"))


def test_what_counts_last_comes_after_all_that_is_new_or_gone() -> None:
    """Whatever its name is, and on whichever page of the list it was."""
    kept, listing = store.Store("things", sink := LastSink()), store.Listing[ConfigMap]()
    for name in ("a", "gone"):
        kept.upsert(ConfigMap(wire.Meta(name, "ml", f"uid-{name}", "5")))
    sink.calls.clear()

    for page in (("a", "b"), ("z",)):
        things = [
            ConfigMap(wire.Meta(name, "ml", f"uid-{name}", "6"), {"last": "yes" if name == "a" else ""})
            for name in page
        ]
        collections.deque(kept.upsert_page(things, listing))
    collections.deque(kept.end_list(listing))

    found = [(what, name) for what, name, _ in sink.calls]
    assert found == [("upserted", "b"), ("upserted", "z"), ("deleted", "gone"), ("upserted", "a")]


def test_revisions_are_found_by_title_and_by_uid() -> None:
    """Of what is there, in the revision that was seen last; of what is not there nothing."""
    kept = store.Store("things", RecordingSink())
    for meta in (wire.Meta("n1", "", "u1", "5"), wire.Meta("p", "ml", "u2", "6"), wire.Meta("q", "ml", "u3")):
        kept.upsert(ConfigMap(meta))

    assert kept.revisions_of({"n1", "ml/p", "u3", "p", "ml/u2", "none"}) == {"n1": "5", "ml/p": "6", "u3": ""}
    assert kept.revisions_of(set()) == {}
