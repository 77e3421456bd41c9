"""Replaces functions for a while."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """owner.name is `new` for a while; a name that the owner only inherits is inherited again."""
    had, old = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, old)
        else:
            delattr(owner, name)
