"""Counts the house: how long files and functions are, and how many files know a thing by its name.

python tests/counts.py     # prints a table; the walk of a row is counted by tests/walk.py
"""

import ast
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "dpmcmc"
PAPERS = "zoo/"
"""Settings of the papers' experiments name samplers of necessity."""

EXAMPLES = {
    "a sampler": "guided_walk",
    "a mechanism": "SphericalLaplaceSum",
    "a family": "inverse_gaussian",
    "a strategy": "CentredScores",
}
"""One of each kind: the files whose code names it are those that a new one touches."""


def sources() -> dict[str, str]:
    """Return the library's files with their text."""
    return {path.relative_to(LIBRARY).as_posix(): path.read_text("utf-8") for path in sorted(LIBRARY.rglob("*.py"))}


def lengths_of_functions(files: dict[str, str]) -> list[int]:
    """Return the lines of every function, its docstring included."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for text in files.values() for node in ast.walk(ast.parse(text)))
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes if isinstance(node, functions)]


def names_in(text: str) -> set[str]:
    """Return the names in the code of a file, those of imported modules too, without comments and longer texts."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            found.add(node.value.rpartition(".")[2])  # of registries: "sum.Sum"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {part for alias in node.names for part in alias.name.split(".")}
            found |= set((getattr(node, "module", None) or "").split("."))
    return found


def files_that_name(name: str, files: dict[str, str]) -> list[str]:
    """Return the files whose code names a thing."""
    return [file for file, text in files.items() if name in names_in(text) and not file.startswith(PAPERS)]


def words_of_the_readme() -> int:
    """Return the words of README.md, what only tests see left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return len(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).split())


def main() -> None:
    """Print the counts."""
    import dpmcmc as dp

    files = sources()
    of_files, of_functions = [len(text.splitlines()) for text in files.values()], lengths_of_functions(files)
    rows: list[tuple[str, object]] = [
        ("files of the library", len(files)),
        ("lines of a file, median and longest", f"{statistics.median(of_files):.0f}, {max(of_files)}"),
        ("lines of a function, median and longest", f"{statistics.median(of_functions):.0f}, {max(of_functions)}"),
        ("public names, `dpmcmc.__all__`", len(dp.__all__)),
        ("words of README.md", words_of_the_readme()),
    ]
    for kind, name in EXAMPLES.items():
        named = files_that_name(name, files)
        rows.append((f"files of the library that name {kind}, `{name}`", f"{len(named)}: {', '.join(named)}"))
    for label, value in rows:
        print(f"{label}: {value}")  # noqa: T201


if __name__ == "__main__":
    main()
