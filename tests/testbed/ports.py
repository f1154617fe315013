"""Reserves ports so that nobody can take them between choosing and using them.

Asking the kernel for a free port and closing the socket again is a race with everything else on the
machine. Here the socket stays open for the life of the cluster, bound but never listening, with
SO_REUSEPORT; etcd and the API server share the port with it (both have an option for that), also when they
are restarted, and connections reach only them.
"""

import socket


class Reservation:
    """Keeps a port of the loopback interface for as long as it is open."""

    def __init__(self) -> None:
        """Reserve any free port."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Release the port."""
        self._socket.close()


def free() -> int:
    """Return a port that was free just now, for a program that shares its port with nobody."""
    reservation = Reservation()
    reservation.release()
    return reservation.port
