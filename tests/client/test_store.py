"""What an informer has told is gone through in small steps, however much it is."""

from berth_crds import wire
from berth_crds.client import store
from support import counted, mirror


def test_what_a_list_lacks_is_forgotten_one_by_one() -> None:
    """Thousands that vanish while nobody looks are not put in order first, nor compared all at once."""
    kept = store.Store("things", mirror.Mirror[mirror.ConfigMap]())
    for at in range(2000):
        meta = wire.Meta(name=counted.Word(f"p{at}"), uid=f"u{at}", resource_version="5")
        kept.upsert(mirror.ConfigMap(meta))
    seen = {("", f"p{at}") for at in range(0, 2000, 2)}
    counted.taken()

    most = max(counted.taken() for _ in kept.retain(seen))

    assert len(kept) == 1000
    assert most < 20
