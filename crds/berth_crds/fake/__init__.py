"""An API server for tests of programs that use Berth's kinds: in memory, and at a port of this machine.

`server` speaks HTTP, so that any client of Kubernetes can ask it, and `objects` keeps what was put there.
It takes whatever it is given: schemas, admission and rights are the real server's.
"""

from berth_crds.fake.server import Server, serving

__all__ = ["Server", "serving"]
