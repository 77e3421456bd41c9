"""What goes wrong, as one line."""

from __future__ import annotations


class CollectError(Exception):
    """One line for the person at the terminal."""
