"""Errors with a message of one line."""

from __future__ import annotations


class CollectError(Exception):
    """An error whose message is one line for the user."""
