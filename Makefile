# One command a task. Each sets up what it needs: on a bare clone `make demo` and `make test` just work.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPMENT := $(VENV)/.development
BROWSER := $(VENV)/.browser
DOCUMENTATION := $(VENV)/.documentation

# our bytecode is kept, whatever the surroundings say: tests start many processes
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test lint types imports docs unit test-slow figures reproduce reproduce-quick benchmark clean

help:  ## list the tasks
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(INSTALLED)  ## go from a synthetic table to a private posterior and its report
	$(BIN)/dpmcmc demo --output demo

# what needs one core goes beside the tests
test: $(DEVELOPMENT) $(BROWSER)  ## everything CI runs
	$(MAKE) --no-print-directory --jobs 2 unit types lint imports docs

lint: $(DEVELOPMENT)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEVELOPMENT)
	$(BIN)/basedpyright

imports: $(DEVELOPMENT)
	$(BIN)/lint-imports

# strict: a warning, a dead link or anything that a page would fetch fails it. The variable silences a notice of the theme's makers
docs: $(DOCUMENTATION)  ## the documentation as a site, in site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

unit: $(DEVELOPMENT) $(BROWSER)
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test-slow: $(DEVELOPMENT) $(BROWSER)  ## the long statistical tests as well
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m "slow or not slow"

figures: $(DEVELOPMENT)  ## make the pictures in docs/figures again
	$(BIN)/python docs/figures/accountants.py
	$(BIN)/python docs/figures/diagnostics.py

reproduce: $(INSTALLED)  ## make every figure and table of the literature again: hours
	$(BIN)/dpmcmc reproduce --all

reproduce-quick: $(INSTALLED)  ## the same at reduced size, in minutes: does it run
	$(BIN)/dpmcmc reproduce --all --quick --fresh

benchmark: $(DEVELOPMENT)  ## measure, against the peers in the same run
	$(BIN)/python benchmarks/accounting.py
	$(BIN)/python benchmarks/planner.py
	$(BIN)/python benchmarks/samplers.py --output benchmarks/results/samplers_cpu.csv

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || $(PYTHON) -m ensurepip --version || { \
	  [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }

$(INSTALLED): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEVELOPMENT): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,docs]"
	@touch $@ $(INSTALLED) $(DOCUMENTATION)

$(DOCUMENTATION): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

# the tests of the pages drive Debian's Chromium; without it they fail in CI and skip elsewhere
$(BROWSER): $(VENV)/bin/python
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium fonts-liberation; } || echo "no chromium: install it"
	@if command -v chromium > /dev/null; then touch $@; fi

clean:  ## remove the environment and everything that was made
	rm -rf $(VENV) demo site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
