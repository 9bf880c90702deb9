"""The folder of a run while it is made: results of programs at first, and then, all at once, what a posterior saves."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from dpmcmc.enclave.resume.journal import UNFINISHED, has_private_part
from dpmcmc.enclave.resume.private_file import sync_folder
from dpmcmc.posterior import Posterior

FILES = ("draws.nc", "summary.csv", "certificate.json", "config.toml")
BESIDE = ("report.html", "draws.parquet", "draws.csv")
"""Beside them, but for a run for which they could not be made."""


def is_complete(folder: Path) -> bool:
    """Say whether everything is there that a posterior is read from."""
    return all((folder / name).is_file() for name in FILES)


def is_finished(folder: Path) -> bool:
    """Say whether nothing is left to do; what a run that was stopped at its very end left behind is removed."""
    if not is_complete(folder) or has_private_part(folder):
        return False
    tidy(folder)
    return True


def put(posterior: Posterior, folder: Path) -> None:
    """Write a posterior into the folder, for good; once more changes nothing."""
    made = folder / UNFINISHED / "finished"
    shutil.rmtree(made, ignore_errors=True)
    posterior.save(made)
    for path in (*(made / name for name in FILES), *(made / name for name in BESIDE if (made / name).is_file())):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        path.replace(folder / path.name)
    sync_folder(folder)


def tidy(folder: Path) -> None:
    """Remove what a run needs only while it is not settled, and the folder itself if nothing came of it."""
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()
