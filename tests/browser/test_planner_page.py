"""The planner in a real browser: it shows what the library answers, and nothing that it makes up."""

import json
import sys
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_sizes import SIZES

from dpmcmc.cli.main import run
from dpmcmc.planner import Grid, plan_fit, write_planner

GRID = Grid(
    epsilon=(0.5, 4.0),
    delta=(1e-6, 1e-8),
    num_records=(1000, 100_000),
    num_parameters=(2, 30),
    num_chains=(2,),
    sampler=("dp_langevin", "dp_sgld"),
)


@pytest.fixture(scope="module")
def planner(tmp_path_factory):
    return write_planner(tmp_path_factory.mktemp("planner") / "plan.html", GRID)


def choose(page, places) -> None:
    for name, place in zip(GRID.axes, places, strict=True):
        if name == "sampler":
            page.select_option("#sampler", str(place))
        else:
            page.fill(f"#{name}", str(place))


def test_every_number_is_the_librarys(planner, show) -> None:
    page = show(planner)
    for places in product(*(range(len(values)) for values in GRID.axes.values())):
        choose(page, places)
        settings = {name: values[place] for (name, values), place in zip(GRID.axes.items(), places, strict=True)}
        answer = plan_fit(settings.pop("sampler"), **settings)
        assert float(page.inner_text("#error").removeprefix("at least ")) == pytest.approx(answer.error, rel=6e-3)
        assert page.inner_text("#error").startswith("at least ") == (not answer.is_known)
        assert float(page.inner_text("#noise")) == pytest.approx(answer.noise, rel=6e-3)
        draws = page.inner_text("#draws").removeprefix("at most ").replace(",", "")
        assert float(draws) == pytest.approx(answer.effective_draws, rel=1e-5, abs=0.51)
        assert page.inner_text("#verdict").startswith("Useless") == answer.is_refused
        rows = page.query_selector_all("#accountants tbody tr:not([hidden])")
        seen = {row.get_attribute("data-accountant"): float(row.query_selector("td").inner_text()) for row in rows}
        assert seen == pytest.approx(answer.epsilon, rel=1e-5)


def test_the_command_gives_the_same_answer(planner, show, monkeypatch, capsys) -> None:
    page = show(planner, permissions=["clipboard-read", "clipboard-write"])
    choose(page, (1, 1, 0, 1, 1, 0))
    page.click("button[data-copy=command]")
    page.wait_for_selector("[role=status]:text('copied')")
    command = page.evaluate("navigator.clipboard.readText()").split()
    assert command[:3] == ["dpmcmc", "plan", "fit"]
    monkeypatch.setattr(sys, "argv", [*command, "--json"])
    with pytest.raises(SystemExit):
        run()
    told = json.loads(capsys.readouterr().out)
    assert (told["sampler"], told["delta"]) == ("dp_sgld", 1e-8)
    assert float(page.inner_text("#noise")) == pytest.approx(told["noise"], rel=6e-3)


def test_keys_move_the_settings(planner, show) -> None:
    page = show(planner)
    before = page.inner_text("#error")
    page.focus("#num_parameters")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#num_parameters-value") == "30"
    assert page.get_attribute("#num_parameters", "aria-valuetext") == "30"
    assert page.inner_text("#error") != before


def test_without_scripts_there_is_a_table(planner, show) -> None:
    page = show(planner, java_script_enabled=False)
    assert not page.is_visible("#planner")
    texts = page.locator("#overview td").all_inner_texts()
    expected = [
        plan_fit("dp_langevin", epsilon=epsilon, delta=1e-6, num_records=size, num_parameters=2).error
        for size in GRID.num_records
        for epsilon in GRID.epsilon
    ]
    assert [text == "refused" for text in texts] == [error > 1 for error in expected]
    cells = [error if text == "refused" else float(text) for text, error in zip(texts, expected, strict=True)]
    assert cells == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_anybody_can_read_it_on_any_screen(planner, show, width, scheme) -> None:
    page = show(planner, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
