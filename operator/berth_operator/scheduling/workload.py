"""What is known of the workload: how much, and in which sizes, pods ask.

Placement that wants to leave usable rests must know what will be asked of them. It
learns that from the pods now known, waiting and bound, and from a fixed prior, and from
nothing else: what is learned is a pure function of those, so a restarted operator learns
the same again.
"""


class Workload:
    """Counts what pods ask."""

    lesson = None

    def see(self, *_: object) -> None:
        """Count a pod."""
