"""Asks a program of this machine for a page, as a probe or a person does."""

import contextlib
import http.client

Answer = tuple[int, str]


def get(port: int, path: str, *, token: str = "") -> Answer:
    """Return the status and the text of a page; 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with contextlib.closing(connection), contextlib.suppress(ConnectionError):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    return 0, ""
