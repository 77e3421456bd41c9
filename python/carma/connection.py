"""HTTP over the daemon's Unix socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import struct
import threading
from typing import Any, Optional

from .errors import CarmaError, DeniedError, UnavailableError, error_of

TIMEOUT_S = 60.0


class Lost(Exception):
    """The connection ended before the answer, so it is unknown whether the request arrived."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock: Optional[socket.socket] = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
            # If another user had put a socket in place of the daemon's, that user would receive our environment.
            _, uid, _ = struct.unpack("3i", self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
            if uid not in (0, os.geteuid()):
                raise DeniedError(f"{self._path}: it belongs to user {uid}, neither root nor you", "denied")
        except BaseException:
            self.close()
            raise


class Connection:
    """One connection for each thread and process, kept open between calls."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._local = threading.local()

    def call(self, method: str, target: str, body: Optional[Any] = None, timeout: float = TIMEOUT_S) -> Any:
        """Makes a call and returns the JSON of the answer. Raises CarmaError, or Lost if the answer may have been lost."""
        data = None if body is None else json.dumps(body).encode()
        kept = self._kept()
        for connection in (kept, _UnixConnection(self.path, timeout)):
            if connection is None:
                continue
            connection.timeout = timeout  # applies to sockets that this connection opens later
            try:
                if connection.sock is None:
                    connection.connect()
                else:
                    connection.sock.settimeout(timeout)
            except OSError as error:
                connection.close()
                if connection is kept:
                    continue
                raise UnavailableError(f"{self.path}: {error.strerror or error}: is carmad running?", "unavailable") from error
            try:
                # The daemon may have closed the connection: an idle one, or one whose request it refused before reading all of it.
                # Then reading shows whether there is an answer.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request(method, target, data, {"Content-Type": "application/json"} if data else {})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The daemon may have closed an idle connection long before this request.
                if connection is kept and (method == "GET" or isinstance(error, http.client.RemoteDisconnected)):
                    continue
                raise Lost(str(error)) from error
            except BaseException:  # after Ctrl-C the answer would still arrive
                connection.close()
                raise
            self._local.connection, self._local.pid = connection, os.getpid()
            return self._value(answer.status, text)
        raise AssertionError("a new connection must answer or fail")

    def close(self) -> None:
        """Closes the connection of this thread."""
        connection = self._kept()
        if connection is not None:
            connection.close()

    def _kept(self) -> Optional[_UnixConnection]:
        connection: Optional[_UnixConnection] = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid != os.getpid():  # after a fork the connection is the parent's
            connection.close()  # closes only this process's descriptor
            self._local.connection = connection = None
        return connection

    @staticmethod
    def _value(status: int, text: bytes) -> Any:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise CarmaError(f"HTTP {status} without JSON: {text[:200]!r}") from error
        if status >= 400:
            said = value.get("error", {}) if isinstance(value, dict) else {}
            raise error_of(said.get("code", "io"), said.get("message", f"HTTP {status}"))
        return value
