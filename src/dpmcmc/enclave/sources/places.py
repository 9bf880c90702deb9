"""Where files lie: from paths, folders, patterns, lists of them and URLs to files in a fixed order."""

import fnmatch
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.enclave.tables.files import FORMATS, refuse_again
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.errors import InvalidArgument

Stated = str | os.PathLike[str]

_HIDDEN = (".", "_")  # what Spark and its like leave behind


class Place(NamedTuple):
    """A file: the filesystem that has it, its path there, and what it is called in messages."""

    filesystem: Any
    path: str
    shown: str

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine, or on what is mounted like one."""
        return isinstance(self.filesystem, arrow(".fs").LocalFileSystem)

    @property
    def suffix(self) -> str:
        """The end of its name."""
        return PurePosixPath(self.path).suffix.lower()


def find(source: Stated | Sequence[Stated]) -> list[Place]:
    """Return all files of a source. Those of a folder or pattern are ordered by the parts of their paths."""
    stated: list[Any] = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not stated or not all(isinstance(each, str | os.PathLike) for each in stated):
        raise InvalidArgument(
            "source must be a path, a folder, a pattern or a URL, or a list of them with at least one"
        )
    found = [place for each in stated for place in _files(os.fspath(each))]
    seen: set[tuple[str, str]] = set()
    here: set[tuple[int, int]] = set()
    for place in found:
        one = place.filesystem.type_name, place.path
        if place.is_local:
            refuse_again(place.path, place.shown, here)
        elif one in seen:
            raise InvalidArgument(
                f"source={place.shown!r} is named more than once; its rows would count more than once"
            )
        seen.add(one)
        if place.suffix not in FORMATS:
            raise InvalidArgument(f"source={place.shown!r} must end in one of {', '.join(FORMATS)}, or be a folder")
    return found


def _files(stated: str) -> list[Place]:
    filesystem, path, scheme = _resolve(stated)
    shown = f"{scheme}{path}"
    kinds = arrow(".fs").FileType
    info = without_values(f"source={shown!r} cannot be reached", lambda: filesystem.get_file_info(path))
    if info.type == kinds.File:
        return [Place(filesystem, path, shown)]
    if info.type == kinds.Directory:
        return [Place(filesystem, each, f"{scheme}{each}") for each in _of_folder(filesystem, path, shown)]
    if not is_pattern(path):
        raise InvalidArgument(f"source={shown!r} cannot be read: no such file or folder")
    base, pattern = _split(path)
    inside = _inside(filesystem, base, shown, is_deep="**" in pattern or len(pattern) > 1)
    matching = [each for each in inside if _matches(_parts(each, base), pattern)]
    if not matching:
        raise InvalidArgument(f"source={shown!r} matches no file; expected a pattern such as 'folder/*.parquet'")
    return [Place(filesystem, each, f"{scheme}{each}") for each in matching]


def _resolve(stated: str) -> tuple[Any, str, str]:
    """Return a filesystem, a path in it, and what stands before the path in messages: no password that a URL has."""
    module = arrow(".fs")
    if "://" not in stated:
        return module.LocalFileSystem(), os.path.abspath(os.path.expanduser(stated)), ""  # noqa: PTH100, PTH111
    scheme = stated.partition("://")[0] + "://"
    address, mark, query = stated.partition("?")
    base, pattern = address, ""
    if is_pattern(address):
        parts = address.split("/")
        plain = next(number for number, part in enumerate(parts) if is_pattern(part))
        base, pattern = "/".join(parts[:plain]), "/" + "/".join(parts[plain:])
    filesystem, path = without_values(
        f"source={scheme + '...'!r} cannot be reached; expected a URL that pyarrow knows, or fsspec where it is "
        "installed, with what it needs to log in",
        lambda: _filesystem(base + mark + query),
    )
    return filesystem, path.rstrip("/") + pattern, "" if scheme == "file://" else scheme


def _filesystem(url: str) -> tuple[Any, str]:
    module, pyarrow = arrow(".fs"), arrow()
    try:
        return module.FileSystem.from_uri(url)
    except (pyarrow.ArrowInvalid, NotImplementedError):  # not one of those that pyarrow knows, or has been built with
        pass
    from fsspec.core import url_to_fs  # pyright: ignore[reportMissingImports]

    other, path = url_to_fs(url)
    return module.PyFileSystem(module.FSSpecHandler(other)), path


def _of_folder(filesystem: Any, folder: str, shown: str) -> list[str]:
    """Return the files of a folder: those of Parquet, or, without them, those of the one other kind that is there."""
    inside = _inside(filesystem, folder, shown, is_deep=True)
    found = {suffix: [each for each in inside if each.lower().endswith(suffix)] for suffix in FORMATS}
    if found[".parquet"]:
        return found[".parquet"]
    kinds = [suffix for suffix in FORMATS if found[suffix]]
    if not kinds:
        raise InvalidArgument(f"source={shown!r} is a folder without files that end in one of {', '.join(FORMATS)}")
    if len(kinds) > 1:
        raise InvalidArgument(
            f"source={shown!r} is a folder with files of several kinds, {', '.join(kinds)}; say which are meant, with "
            f"a pattern such as '*{kinds[0]}'"
        )
    return found[kinds[0]]


def _inside(filesystem: Any, folder: str, shown: str, *, is_deep: bool) -> list[str]:
    """Return the files below a folder, without hidden ones, in the order of their names."""
    module = arrow(".fs")
    selector = module.FileSelector(folder, recursive=is_deep, allow_not_found=True)
    infos = without_values(f"source={shown!r} cannot be listed", lambda: filesystem.get_file_info(selector))
    files = [info.path for info in infos if info.type == module.FileType.File]
    visible = [path for path in files if not any(part.startswith(_HIDDEN) for part in _parts(path, folder))]
    return sorted(visible, key=lambda path: _parts(path, folder))


def _parts(path: str, folder: str) -> tuple[str, ...]:
    """Return the parts of a path below a folder."""
    return PurePosixPath(path.replace(os.sep, "/")).parts[len(PurePosixPath(folder.replace(os.sep, "/")).parts) :]


def is_pattern(path: str) -> bool:
    """Say whether a path has a mark in it that stands for other letters."""
    return any(mark in path for mark in "*?[")


def _split(path: str) -> tuple[str, tuple[str, ...]]:
    """Split a pattern into the folder that it begins with and its further parts."""
    parts = PurePosixPath(path.replace(os.sep, "/")).parts
    plain = next(number for number, part in enumerate(parts) if is_pattern(part))
    return str(PurePosixPath(*parts[:plain])), parts[plain:]


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Say whether the parts of a path match those of a pattern, in which ``**`` stands for any number of folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or (bool(parts) and _matches(parts[1:], pattern))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
