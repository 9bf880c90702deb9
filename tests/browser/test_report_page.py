"""The page of a run in a real browser: what it shows, what it does, and who can read it."""

import json
import math
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_sizes import SIZES

import dpmcmc as dp
from dpmcmc.accounting import Gaussian
from dpmcmc.run.plan import prior_draws

NAMES = ["intercept", "age", "smoker", "ward[west]"]
"""The parameters of the run."""


@pytest.fixture
def report(run_folder):
    return run_folder / "report.html"


def shown(page, selector: str) -> int:
    return sum(element.is_visible() for element in page.query_selector_all(selector))


def is_drawn(element) -> bool:
    box = element.bounding_box()
    return box is not None and box["width"] > 200 and box["height"] > 30


def test_every_picture_is_there(report, show) -> None:
    page = show(report)
    for selector, count in {
        ".units-original .density svg": len(NAMES),
        ".units-original .beside svg": len(NAMES),
        ".prediction svg": 3,
        "#curve svg": 1,
        "figure.trace svg": len(NAMES),
        "figure.ranks svg": len(NAMES),
    }.items():
        found = page.query_selector_all(selector)
        assert len(found) == count, selector
        assert all(map(is_drawn, found)), selector
        lines = [svg.query_selector_all("polyline, rect, circle") for svg in found]
        assert all(lines), f"nothing is drawn in {selector}"
        assert all(svg.get_attribute("aria-label") for svg in found), "a picture has no words"
    points = page.eval_on_selector_all("polyline, polygon", "lines => lines.map(line => line.getAttribute('points'))")
    assert not [line for line in points if "nan" in line or "inf" in line]


def test_the_numbers_are_those_of_the_run_folder(report, run_folder, show) -> None:
    page = show(report)
    summary = pd.read_csv(run_folder / "summary.csv", index_col="parameter")
    rows = page.query_selector_all("table[data-units=original] tbody tr")
    assert [row.query_selector("th").inner_text() for row in rows] == list(summary.index)
    verdicts, summary = list(summary["verdict"]), summary.drop(columns="verdict")
    assert [row.query_selector("td:last-child").inner_text() for row in rows] == verdicts
    for row, (_, numbers) in zip(rows, summary.iterrows(), strict=True):
        cells = row.query_selector_all("data")
        assert [float(cell.get_attribute("value")) for cell in cells] == list(numbers)
        assert [float(cell.inner_text().replace("−", "-")) for cell in cells] == pytest.approx(list(numbers), rel=1e-3)
    certificate = json.loads((run_folder / "certificate.json").read_text())
    glance = dict(
        zip(page.locator(".glance dt").all_inner_texts(), page.locator(".glance dd").all_inner_texts(), strict=True)
    )
    assert certificate["epsilon"] <= float(glance["epsilon"]) <= certificate["epsilon"] * 1.001, "rounded up"
    assert float(glance["delta"]) == certificate["delta"]
    assert page.inner_text("#statement") == certificate["statement"]
    page.click("#privacy summary >> nth=0")
    values = [float(cell.get_attribute("value")) for cell in page.query_selector_all("#curve-table data")]
    assert values == [point[name] for point in certificate["curve"] for name in ("epsilon", "delta")]
    assert json.loads(page.text_content("#certificate")) == certificate
    factor = float(re.search(r"at most ([\d.]+) times", page.inner_text(".statement"))[1])
    assert math.exp(certificate["epsilon"]) <= factor <= 1.01 * math.exp(certificate["epsilon"])
    told = float(re.search(r"at most ([\d.]+)\s%", page.inner_text("#privacy"))[1])
    assert told == pytest.approx(50 + 50 * certificate["curve"][0]["delta"], rel=0.01)


def test_a_parameter_can_be_chosen(report, show) -> None:
    page = show(report)
    page.select_option("#parameter", "smoker")
    for selector in ("#posterior .units-original .card", "#chains .card"):
        assert shown(page, selector) == 1
        assert page.inner_text(f"{selector}:visible h3") == "smoker"
    page.select_option("#parameter", "")
    assert shown(page, "#chains .card") == len(NAMES)


@pytest.mark.parametrize("scripts", [True, False])
def test_units_can_be_switched(report, show, scripts) -> None:
    page = show(report, java_script_enabled=scripts)
    table = "table.summary[data-units={}]"
    assert page.is_visible(table.format("original"))
    assert not page.is_visible(table.format("scaled"))
    page.check("#units-scaled")
    assert page.is_visible(table.format("scaled"))
    assert not page.is_visible(table.format("original"))
    slopes = {
        units: float(
            page.get_attribute(f"{table.format(units)} tr:has(th:text-is('age')) td:nth-child(2) data", "value")
        )
        for units in ("original", "scaled")
    }
    assert slopes["scaled"] == pytest.approx(36 * slopes["original"], rel=1e-4), "half the range from 18 to 90"


def test_values_are_read_under_the_pointer_and_by_keys(report, show) -> None:
    page = show(report)
    figure = page.locator(".units-original .density").first
    figure.locator("svg").hover()
    by_pointer = figure.locator(".reading").inner_text()
    assert re.fullmatch(r".+ -?[\d.e-]+: posterior [\d.e-]+, prior [\d.e-]+", by_pointer)
    page.mouse.move(0, 0)
    assert figure.locator(".reading").inner_text() == ""
    figure.locator("svg").focus()
    first = figure.locator(".reading").inner_text()
    page.keyboard.press("ArrowRight")
    second = figure.locator(".reading").inner_text()
    page.keyboard.press("ArrowLeft")
    assert first == figure.locator(".reading").inner_text() != second


def test_keys_alone_reach_everything(report, show) -> None:
    page = show(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName.toLowerCase()"))
    assert {"a", "units-original", "parameter", "svg", "summary", "bibtex", "button"} <= reached


def test_the_citation_is_copied(report, show) -> None:
    page = show(report, permissions=["clipboard-read", "clipboard-write"])
    page.click("button[data-copy=bibtex]")
    page.wait_for_selector("[role=status]:text('copied')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("@software{dpmcmc")
    assert "wang2015" in copied


def test_it_can_be_read_without_scripts(report, show) -> None:
    page = show(report, java_script_enabled=False)
    assert shown(page, ".units-original .density svg") == shown(page, "figure.trace svg") == len(NAMES)
    assert not page.is_visible("#parameter"), "what does nothing is not shown"
    assert not page.is_visible("button")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_anybody_can_read_it_on_any_screen(report, show, width, scheme) -> None:
    page = show(report, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "it must not be moved sideways"
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_tool_sees_what_is_hard_to_read(report, show) -> None:
    page = show(report)
    page.evaluate("document.querySelector('.statement p').style.color = '#aaa'")
    page.evaluate("document.querySelector('#curve svg').removeAttribute('aria-label')")
    violated = {violation["id"] for violation in Axe().run(page).response["violations"]}
    assert {"color-contrast", "svg-img-alt"} <= violated


def test_it_prints(report, show, tmp_path) -> None:
    page = show(report, 1400, "dark")
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    document = (tmp_path / "report.pdf").read_bytes()
    assert document.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 6
    page.emulate_media(media="print")
    assert not page.is_visible("nav")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert shown(page, ".units-original .density svg") == len(NAMES)


def test_a_report_of_22_parameters_prints_on_six_pages(show, tmp_path) -> None:
    wards = tuple(f"ward{number:02d}" for number in range(18))
    columns = {name: dp.Column(kind="number", lower=0, upper=100) for name in ("age", "bmi", "dose")}
    schema = dp.Schema(
        columns | {"ward": dp.Column(kind="category", categories=wards), "ill": dp.Column(kind="boolean")}
    )
    formula = "ill ~ age + bmi + dose + ward + age:dose"
    model = dp.from_formula(formula, schema, family="bernoulli")
    prior = prior_draws(model)
    draws = {name: values[0, :80].reshape(2, 40, *values.shape[2:]) for name, values in prior.items()}
    request = {"formula": formula, "family": "bernoulli", "priors": model.priors, "description": model.describe()}
    settings = {
        "stages": [{"kernel": "private_laplace", "num_steps": 40}],
        "request": {**request, "schema": tomllib.loads(schema.to_toml())},
    }
    certificate = dp.Certificate(Gaussian(5.0) * 3 + Gaussian(9.0) * 2, "replace_one", 1e-6)
    made = dp.Posterior(draws, np.ones((2, 40), bool), 0, certificate, settings, prior)
    assert len(made.summary()) == 22
    page = show(made.report(tmp_path / "report.html"))
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())) <= 6
    page.emulate_media(media="print")
    assert shown(page, ".units-original .forest") == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_coefficients_can_be_drawn_as_odds_ratios(report, show) -> None:
    page = show(report)
    drawn = page.locator(".units-original .forest")
    assert [drawn.nth(number).is_visible() for number in range(drawn.count())] == [True, False]
    page.check("#scale-ratios")
    assert [drawn.nth(number).is_visible() for number in range(drawn.count())] == [False, True]
    assert "odds ratios" in drawn.nth(1).get_attribute("aria-label")


def test_the_page_itself_forbids_requests(report, browser) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    answered = page.evaluate("fetch('https://example.org/').then(() => 'answered', error => error.name)")
    assert answered == "TypeError"
    page.close()
