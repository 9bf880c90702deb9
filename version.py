"""The version that a build gets: that of the tag it stands on, or the stated one. Hatchling runs this file."""

import os
import re
import subprocess
from pathlib import Path

STATED = "0.3.0"
"""The release that is next. Builds without a tag have it: between releases, and from folders that git does not know."""


def version(folder: Path) -> str:
    """Return X.Y.Z of a tag vX.Y.Z, if `folder` is a clean clone at that tag, and the stated version otherwise."""
    surroundings = {"GIT_CEILING_DIRECTORIES": str(folder.parent)}  # a repository around the folder has tags of its own
    describe = ["git", "describe", "--tags", "--exact-match", "--match", "v*", "--dirty"]
    try:
        found = subprocess.run(  # noqa: S603
            describe, cwd=folder, env={**os.environ, **surroundings}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:  # no git on this machine
        return STATED
    tag = re.fullmatch(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)\n", found.stdout)
    return STATED if tag is None else tag[1]


__version__ = version(Path(__file__).resolve().parent)
