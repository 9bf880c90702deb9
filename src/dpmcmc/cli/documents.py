"""Files that others may have written: read up to a length, and only if they are files, which end."""

from pathlib import Path

from dpmcmc.errors import InvalidArgument


def read_document(file: Path, what: str, most: int) -> str:
    """Return the text of a file, or its first `most` + 1 characters: whoever reads it refuses what is longer.

    A pipe that nobody writes to, or a device without an end, would be waited for.
    """
    if file.exists() and not file.is_file():
        raise InvalidArgument(f"{str(file)!r} cannot be read as {what}: it is a folder, a pipe or a device, not a file")
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise InvalidArgument(f"{str(file)!r} cannot be read as {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{str(file)!r} cannot be read as {what}: it is not text in UTF-8") from error
