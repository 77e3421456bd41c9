"""Makes the programs of a build accessible to other users, wherever the checkout is."""

import os
import pathlib
import shutil

OTHERS_MAY_ENTER = 0o001


def enterable(programs, folder):
    """The folder `programs` or, if a parent folder keeps other users out, a copy of CARMA's programs in the new folder `folder`."""
    programs = pathlib.Path(os.path.realpath(programs))
    if all(above.stat().st_mode & OTHERS_MAY_ENTER for above in (programs, *programs.parents)):
        return str(programs)
    shutil.copytree(programs, os.path.join(folder, "bin"), ignore=lambda _, names: [
        name for name in names if not name.startswith("carma") and not name.endswith(".so")])
    shutil.copytree(programs.parent / "libexec", os.path.join(folder, "libexec"))
    os.chmod(folder, 0o755)
    return os.path.join(folder, "bin")
