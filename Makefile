# Two commands: `make demo` and `make test`. Both create .venv and install into it what they need, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test check bench clean

help:
	@echo "make demo   install gsat into .venv and run the demo on bundled data"
	@echo "make test   install the development tools, then ruff, mypy and pytest"
	@echo "make bench  measure speed ratios side by side, write results/bench.json and the table in README.md"
	@echo "make clean  remove .venv and caches"

demo: .venv/run.stamp
	$(BIN)/gsat demo --force

test: check
	$(BIN)/python -m pytest

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/bench.stamp
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/table.py

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "gsat needs Python 3.11 or newer; call make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv

.venv/run.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e .
	@touch $@

.venv/dev.stamp: .venv/run.stamp
	$(PIP) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"])')
	@touch $@

# ART and torchattacks, to compare with. --no-deps: torchattacks asks for torchvision, which it does not need here.
.venv/bench.stamp: .venv/run.stamp benchmarks/requirements.txt
	$(PIP) --no-deps -r benchmarks/requirements.txt
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
