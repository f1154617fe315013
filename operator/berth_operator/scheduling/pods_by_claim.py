"""Which waiting pods use which PersistentVolumeClaims, so that a change of one wakes those pods alone."""

from collections.abc import Collection, Iterable

from berth_operator.scheduling.nodes import facts

ChangedClaims = Collection[facts.ClaimKey] | None  # None: perhaps all.


class PodsByClaim:
    """The uids of waiting pods, by the claims that they use."""

    def __init__(self) -> None:
        self._uids: dict[facts.ClaimKey, dict[str, None]] = {}

    def add(self, uid: str, claims: Iterable[facts.PodClaim]) -> None:
        """Record the claims of a pod."""
        for claim in claims:
            self._uids.setdefault(claim.key, {})[uid] = None

    def remove(self, uid: str, claims: Iterable[facts.PodClaim]) -> None:
        """Forget the claims of a pod."""
        for claim in claims:
            if (uids := self._uids.get(claim.key)) is not None:
                uids.pop(uid, None)
                if not uids:
                    del self._uids[claim.key]

    def count(self, claim: facts.ClaimKey) -> int:
        """Count the pods that use a claim."""
        return len(self._uids.get(claim, ()))

    def uids(self, claims: ChangedClaims) -> Collection[str]:
        """Return the pods that use one of these claims; with None those that use any."""
        found = self._uids.values() if claims is None else (self._uids.get(key, {}) for key in claims)
        return {uid: None for uids in found for uid in uids}
