"""Finds the daemon's socket by the same rules as `carma` (docs/use/api.md)."""

from __future__ import annotations

import glob
import os
import re
from typing import List, Optional

SHARED = "/run/carma/carmad.sock"


def _files() -> List[str]:
    files = ["/etc/carma/carma.toml", *sorted(glob.glob("/etc/carma/carma.d/*.toml"))]
    if os.geteuid() != 0:
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", "/nonexistent"), ".config")
        files.append(os.path.join(config, "carma", "config.toml"))
    return files


def _socket_in(text: str) -> Optional[str]:
    """Reads daemon.socket from a configuration. Python has a TOML parser only from 3.11 on, and for one key this is enough."""
    section, found = "", None
    for line in text.splitlines():
        title = re.match(r"\s*\[\s*([\w.-]+)\s*\]", line)
        if title:
            section = title[1]
        pair = re.match(r"\s*([\w.-]+)\s*=\s*(?:\"([^\"\\]*)\"|'([^']*)')", line)
        if pair and ".".join(filter(None, (section, pair[1]))) == "daemon.socket":
            found = pair[2] or pair[3]
    return found


def _configured() -> Optional[str]:
    found = None
    for path in _files():
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = _socket_in(file.read()) or found
        except OSError:
            continue  # treated as missing
    return os.environ.get("CARMA_DAEMON_SOCKET") or found


def default_socket() -> str:
    """The socket: $CARMA_SOCKET, else the configured one, else that of the user's own daemon if it exists, else root's."""
    named = os.environ.get("CARMA_SOCKET") or _configured()
    if named:
        return named
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/carma-{os.getuid()}"
    own = os.path.join(runtime, "carma", "carmad.sock")
    if os.path.exists(own):
        return own
    # The folder of ends remains while root's daemon is stopped.
    shared = os.path.exists(SHARED) or os.path.exists(SHARED + ".ends")
    return SHARED if shared or os.geteuid() == 0 else own
