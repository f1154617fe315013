"""Says in the Device whether containers are kept to their parts of cards."""

from berth_agent import device_status
from berth_agent.delivery import isolation
from berth_agent.way import Way
from berth_crds import vocabulary, wire


class SharesWatch(Way):
    """Looks at what keeps the containers of one node to their parts."""

    def __init__(self, kept: isolation.Isolation) -> None:
        self._isolation = kept

    def condition(self) -> wire.Condition:
        """Return whether parts are enforced; it has no time yet."""
        state = self._isolation.state()
        return device_status.ready_or_not(
            vocabulary.DeviceCondition.SHARES_ISOLATED,
            state.failure,
            failed=vocabulary.IsolationReason.NOT_ENFORCED,
            fine=state.reason,
            message=state.message,
        )
