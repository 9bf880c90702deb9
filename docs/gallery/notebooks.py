"""Write the notebooks of the gallery from its pages: text becomes cells of text, Python becomes cells of code.

    python docs/gallery/notebooks.py

The pages are the source; `tests/contract/test_gallery.py` runs them and compares.
"""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CODE = re.compile(r"```python\n(.*?)```\n?(?:\n*```output\n.*?```\n?)?", re.DOTALL)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def pages() -> list[Path]:
    """Return the pages that are notebooks too."""
    return [page for page in sorted(HERE.glob("*.md")) if page.name != "index.md"]


def notebook(page: Path) -> str:
    """Return a page as a notebook, in version 4.5 of the format; a cell is known by its place."""
    cells: list[dict[str, Any]] = []
    for place, part in enumerate(CODE.split(page.read_text(encoding="utf-8"))):
        text = part.strip("\n")
        if not text:
            continue
        cell: dict[str, Any] = {"id": f"cell-{place}", "metadata": {}, "source": text.splitlines(keepends=True)}
        kind = {"cell_type": "code", "execution_count": None, "outputs": []} if place % 2 else {"cell_type": "markdown"}
        cells.append({**kind, **cell})
    whole = {"cells": cells, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all of them."""
    for page in pages():
        page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
