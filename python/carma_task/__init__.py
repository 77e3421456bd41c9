"""Tells a training loop on a shared server when to save, where, and how to resume.

    import carma_task

    carma_task.listen()
    first = load(...) if carma_task.restarts() else 0
    for step in range(first, steps):
        ...
        if carma_task.should_save():
            with carma_task.replacing(carma_task.folder() + "/state") as path:
                torch.save(..., path)
            carma_task.leave()          # ends here, resumes later

Needs only Python 3.9. Outside a CARMA task, should_save() is always false, and all calls are harmless.
"""

from .frameworks import last_checkpoint, lightning_callback, lightning_checkpoint, trainer_callback
from .turn import SAVED, folder, leave, listen, progress, replacing, restarts, seconds_left, should_save

__all__ = [
    "SAVED",
    "folder",
    "last_checkpoint",
    "leave",
    "lightning_callback",
    "lightning_checkpoint",
    "listen",
    "progress",
    "replacing",
    "restarts",
    "seconds_left",
    "should_save",
    "trainer_callback",
]
