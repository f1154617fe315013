"""What one change calls for, to read an object or to wake pods, is done at once, but costly things seldom.

To wake pods means to compare each kind of them with what has changed, and to try those that it may help.
Whoever has the token of an agent can have a card fall sick and recover many times in a second, and whoever
may edit a claim that many pods use can do so as often; other pods would wait meanwhile. So what changes
wakes pods at once, a few times in a row, and after that once in a second. What is late is not lost: the
pods are woken when the time has come, by what is true then.

What an agent writes may take long to be read, and so may the charges of very many unadmitted pods. So calls
that take long are put off as well, until on average they take a twentieth of the time. All that one agent
writes is of one account, the labels of its Node among it; and so are all edits of the long pods that one
namespace has on nodes.
"""

import collections
import functools
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

CALLS_IN_A_ROW: Final = 8  # A claim changes five times or so until it is bound to its volume.
SECONDS_BETWEEN_CALLS: Final = 1.0
PAUSE_FOR_TIME: Final = 20.0  # The seconds from one call to the next, for each second that it takes.
PAUSE_FOR_KIND: Final = 0.02  # The same for each kind of pods that it wakes: to try one takes a millisecond.
CREDIT: Final = (CALLS_IN_A_ROW - 1) * SECONDS_BETWEEN_CALLS


class Key(NamedTuple):
    """What is paced, or who pays for it: an event or an account, and whose it is."""

    what: str
    of: str


# Of calls, each by the name of the node, the title of the GpuPod or the uid of the pod that it is about.
improved_node = functools.partial(Key, "a node has improved")
pods_of = functools.partial(Key, "pods are counted otherwise")
charges_of_unadmitted = functools.partial(Key, "there may be room for other unadmitted pods")
device = functools.partial(Key, "a Device has changed")
gpupod = functools.partial(Key, "a GpuPod has changed")
node = functools.partial(Key, "a Node has changed")
pod = functools.partial(Key, "a long pod has changed")
# Of accounts: all that the agent of a node writes, and all changes of the long pods of a namespace.
agent = functools.partial(Key, "its agent writes")
long_pods = functools.partial(Key, "its long pods change")


class _Call(NamedTuple):
    """A call, who pays for it, and the seconds to the next call that are paid however long it takes."""

    make: Callable[[], None]
    account: Hashable
    pause: float


class PacedCalls:
    """Calls, each for something that has changed, and those of them that are to be made later.

    Each account is a token bucket: calls cost a pause, and seconds without a call pay for it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.cpu_clock: Callable[[], float] = float  # Of what calls take: nothing, unless one is set.
        # By account, when the pauses after all its calls so far are over. Mostly in that order.
        self._paid_until: collections.OrderedDict[Hashable, float] = collections.OrderedDict()
        # An ordinary dict is slow to find its first when tens of thousands before it were removed.
        self._delayed: collections.OrderedDict[Hashable, _Call] = collections.OrderedDict()
        # The same by account, for one may have thousands, and all of an account are due at the same time.
        self._delayed_of: dict[Hashable, collections.OrderedDict[Hashable, None]] = {}

    def call(
        self,
        changed: Hashable,
        make: Callable[[], None],
        *,
        account: Hashable = None,
        pause: float = SECONDS_BETWEEN_CALLS,
        later: Callable[[], None] | None = None,
    ) -> None:
        """Make the call that something which has changed calls for, now or soon.

        Of the calls for the same thing that come too soon only one is made. By default each thing that has
        changed has an account of its own. If it is not made now, `later` is what is made in its place, where
        the call itself would keep too much in memory.
        """
        call = _Call(make, changed if account is None else account, pause)
        if changed not in self._delayed and self._free_at(call.account) <= self._clock():
            self._make(call)
            return
        self._delay(changed, call if later is None else call._replace(make=later))
        oldest = next(iter(self._delayed.values()))
        if self._free_at(oldest.account) <= self._clock():
            self.make_delayed()  # Where nobody leads, there are no rounds that make the delayed calls.

    def _delay(self, changed: Hashable, call: _Call) -> None:
        if (before := self._delayed.get(changed)) is not None and before.account != call.account:
            self._pop(changed)
        self._delayed[changed] = call
        self._delayed_of.setdefault(call.account, collections.OrderedDict())[changed] = None

    def _pop(self, changed: Hashable) -> _Call:
        call = self._delayed.pop(changed)
        of_account = self._delayed_of[call.account]
        del of_account[changed]
        if not of_account:
            del self._delayed_of[call.account]
        return call

    def charge(self, account: Hashable, seconds: float) -> None:
        """Have the next call of an account come so much later, for what the last one has brought about."""
        self._paid_until[account] = max(self._paid_until.get(account, 0.0), self._clock()) + seconds
        self._paid_until.move_to_end(account)

    def is_delayed(self, changed: Hashable) -> bool:
        """Whether a call for something is to be made later."""
        return changed in self._delayed

    def forget(self, changed: Hashable) -> None:
        """Make no delayed call for something."""
        if changed in self._delayed:
            self._pop(changed)

    def make_delayed(self) -> None:
        """Make the delayed calls whose time has come."""
        for account, of_account in list(self._delayed_of.items()):
            for _ in range(len(of_account)):
                # A call may make others of its account, and take the time of those after it.
                if not of_account or self._free_at(account) > self._clock():
                    break
                self._make(self._pop(next(iter(of_account))))

    def make_all_delayed(self) -> None:
        """Make all delayed calls, whether their time has come or not: where there are no further rounds."""
        while self._delayed:
            self._pop(next(reversed(self._delayed))).make()

    def next_due(self) -> float | None:
        """Return when the next of the delayed calls is to be made."""
        return min(map(self._free_at, self._delayed_of), default=None)

    def _make(self, call: _Call) -> None:
        self.charge(call.account, call.pause)
        started = self.cpu_clock()
        call.make()
        self.charge(call.account, (self.cpu_clock() - started) * PAUSE_FOR_TIME)
        now = self._clock()
        while self._paid_until and next(iter(self._paid_until.values())) <= now:
            self._paid_until.popitem(last=False)

    def _free_at(self, account: Hashable) -> float:
        return self._paid_until.get(account, 0.0) - CREDIT
