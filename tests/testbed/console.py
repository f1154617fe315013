"""What programs of the tests that a person starts have in common: what to type, and how they end.

`make demo`, `make cluster`, `make chaos`, `make bench` and `testbed up` start servers; whatever
ends the program, these are stopped and removed first, and troubles are sentences.
"""

import shlex
import signal
import sys
from collections.abc import Callable
from typing import Final

from testbed import api, binaries, builder, cluster, processes, waiting

INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells tell it.
TROUBLES: Final = (
    builder.Unavailable,
    processes.CannotStart,
    cluster.KubectlFailed,
    api.ApiError,
    waiting.TimedOut,
)


def exports(testbed: cluster.Cluster) -> str:
    """Return what lets a shell find a cluster that was started, and the kubectl that fits it."""
    kubectl = binaries.locate("kubectl")
    assert kubectl, "the cluster was started with it"
    config, tools = (shlex.quote(str(path)) for path in (testbed.admin_kubeconfig, kubectl.path.parent))
    return f'export KUBECONFIG={config}\nexport PATH={tools}:"$PATH"'


def exit_code(
    name: str, work: Callable[[], int | None], *, last_words: str = "", interrupted: int = INTERRUPTED
) -> int:
    """Do some work and return the exit code of the program; the last words are those of one interrupted.

    Where somebody looks on and ends it when it is enough, `interrupted=0` says that this is a good end.
    """
    # Any of these is a wish to end in good order; even SIGINT, which a shell script's `&` sets to be ignored.
    for wish in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(wish, signal.default_int_handler)
    try:
        return work() or 0
    except KeyboardInterrupt:
        if last_words:
            print(f"\n{name}: {last_words}", file=sys.stderr)
        return interrupted
    except TROUBLES as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
