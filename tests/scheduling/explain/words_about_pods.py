"""What is said of nodes that refuse because of pods elsewhere, of one node and of two."""

from typing import Final

from berth_operator.scheduling.decisions import Reason

UNMATCHED: Final = "didn't match pod topology spread constraints"
NO_ROOM: Final = "there are too many pod labels to keep them all"
WORDS: Final = {
    Reason.SPREAD_LABEL_MISSING: ("zone", f"{UNMATCHED} (missing label zone)"),
    Reason.TOPOLOGY_SPREAD: ("zone: skew 2, maxSkew 1", f"{UNMATCHED} (zone: skew 2, maxSkew 1)"),
    Reason.POD_AFFINITY: ("zone", "didn't match pod affinity rules (zone)"),
    Reason.POD_ANTI_AFFINITY: ("zone", "didn't match pod anti-affinity rules (zone)"),
    Reason.REPELLED: ("zone", "didn't satisfy existing pods anti-affinity rules (zone)"),
    Reason.UNKNOWN_POD_LABELS: ("", f"cannot be evaluated: {NO_ROOM}"),
}
REASONS: Final = {reason: (detail, f"1 {words}", f"2 {words}") for reason, (detail, words) in WORDS.items()}
