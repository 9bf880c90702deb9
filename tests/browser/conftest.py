"""A browser, and a run and a planner for it to show."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import dpmcmc as dp

FORMULA = "readmitted ~ age + smoker + ward"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. In CI it is an error to have none; elsewhere the tests that need it skip."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        message = "the pages were NOT tested: there is no chromium; install it, as `make test` does as root"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page, and afterwards make sure that it raised no error and asked nothing of the network."""
    contexts, complaints, requests = [], [], []

    def opened(file: Path, width: int = 1400, scheme: str = "light", **options) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.resolve().as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert len(requests) == len(contexts), f"more was asked for than the page: {requests}"


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A small run, as `fit` and `save` leave it."""
    rng = np.random.default_rng(3)
    size = 3000
    age, smoker, ward = rng.uniform(18, 90, size), rng.random(size) < 0.4, rng.choice(["north", "west"], size)
    readmitted = rng.random(size) < 1 / (1 + np.exp(0.5 - 0.03 * (age - 54) - 0.8 * smoker))
    schema = dp.Schema(
        {
            "age": dp.Column(kind="number", lower=18, upper=90, unit="years"),
            "smoker": dp.Column(kind="boolean"),
            "ward": dp.Column(kind="category", categories=("north", "west")),
            "readmitted": dp.Column(kind="boolean"),
        }
    )
    book = dp.Ledger.in_memory()
    book.register("patients", dp.Budget(10.0, 1e-6), "replace_one")
    table = pd.DataFrame({"age": age, "smoker": smoker, "ward": ward, "readmitted": readmitted})
    data = dp.PrivateData.from_table(table, schema=schema, ledger=book, dataset="patients")
    posterior = dp.fit(
        FORMULA, data, family="bernoulli", epsilon=8.0, sampler="dp_langevin", num_steps=50, progress=False
    )
    return posterior.save(tmp_path_factory.mktemp("runs") / "readmission")
