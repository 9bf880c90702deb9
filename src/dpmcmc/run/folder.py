"""The run folder: results of programs while the run goes on, then, written at once, the saved posterior."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from dpmcmc.enclave.resume.journal import UNFINISHED, has_private_part
from dpmcmc.enclave.resume.private_file import sync_folder
from dpmcmc.posterior import Posterior

FILES = ("draws.nc", "summary.csv", "certificate.json", "config.toml")
BESIDE = ("report.html", "draws.parquet", "draws.csv")
"""Further files of a complete folder; they are missing if they could not be written."""


def is_complete(folder: Path) -> bool:
    """Say whether all files are there from which a posterior is loaded."""
    return all((folder / name).is_file() for name in FILES)


def is_finished(folder: Path) -> bool:
    """Say whether the run is finished; temporary files of a run that was stopped at its very end are removed."""
    if not is_complete(folder) or has_private_part(folder):
        return False
    tidy(folder)
    return True


def put(posterior: Posterior, folder: Path) -> None:
    """Write the posterior into the folder; repeating it changes nothing."""
    made = folder / UNFINISHED / "finished"
    shutil.rmtree(made, ignore_errors=True)
    posterior.save(made)
    for path in (*(made / name for name in FILES), *(made / name for name in BESIDE if (made / name).is_file())):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        path.replace(folder / path.name)
    sync_folder(folder)


def tidy(folder: Path) -> None:
    """Remove files that a run needs only until it is settled, and the folder itself if it is empty."""
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()
