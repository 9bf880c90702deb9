"""Make the picture of docs/report.md: the top of the posterior on the page that `make demo` leaves.

    make demo && .venv/bin/python docs/figures/report.py demo/report.html

The noise is new in every demo, and so is the picture.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent

with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 900, "height": 1400}, device_scale_factor=1.25)
    page.goto(Path(sys.argv[1]).resolve().as_uri())
    top = page.locator("#posterior").bounding_box()
    first = page.locator("#posterior .card").first.bounding_box()
    height = first["y"] + first["height"] - top["y"] + 16
    page.screenshot(
        path=HERE / "report.png",
        full_page=True,
        clip={"x": top["x"] - 12, "y": top["y"] - 8, "width": top["width"] + 24, "height": height},
    )
    browser.close()
