"""The few requests that the testbed itself sends to the API server and to etcd.

It is a handful of JSON posts, so it is the standard library and nothing else: the client under test must
not be the client that judges it. Proxy settings of the environment are deliberately not read; both servers
are on this machine.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "testbed"}
NO_MORE: Final[Mapping[str, str]] = {}


class ApiError(Exception):
    """A request was answered with an error; `code` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        """Keep the status for callers who accept some of them."""
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Api:
    """One server on 127.0.0.1; with TLS where `tls` is given."""

    port: int
    tls: ssl.SSLContext | None = None
    timeout: float = 10.0

    def get(self, path: str) -> str:
        """Return the text behind `path`."""
        return self._exchange("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send `body` and return the answer."""
        return self.send("POST", path, body)

    def send(
        self, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str] = NO_MORE
    ) -> dict[str, Any]:
        """Send `body` in another way, perhaps with more headers than usual, and return the answer."""
        answer: dict[str, Any] = json.loads(self._exchange(method, path, json.dumps(body), headers))
        return answer

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object, or be content that it exists."""
        try:
            self.post(path, body)
        except ApiError as error:
            if error.code != http.client.CONFLICT:
                raise

    def _exchange(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] = NO_MORE
    ) -> str:
        connection = self._connection()
        try:
            connection.request(method, path, body, {**HEADERS, **headers})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, _message(text))
        return text

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=self.timeout, context=self.tls)


def _message(text: str) -> str:
    """Return what a server says of an error; its whole answer where that is no Status."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text
