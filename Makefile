# Two commands: `make demo` and `make test`. Both create .venv and install into it what they need, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

WORKERS ?= auto

# Whatever computes: these rooms must give the same answers on any processor and with any number of threads.
NUMERICAL := $(wildcard $(addprefix tests/,_arrays costs metric solvers shortcuts models attacks training evaluation \
  theory transport diagnosis estimators selectors defences test_adversary.py test_adversary_ranks.py test_rivals.py))

# The core, without the tests that compare with other libraries.
LOWEST := $(addprefix tests/,_arrays costs/test_costs_input.py metric costs/test_per_batch.py solvers \
  shortcuts attacks defences training theory test_adversary.py estimators/test_weights.py)

# Costs, solvers and short-cuts, whose tests alone must reach nearly every line of them.
CORE := $(addprefix tests/,costs metric solvers shortcuts test_adversary.py)
COVERED := src/gsat/costs,src/gsat/metric,src/gsat/solvers,src/gsat/shortcuts
FLOOR := 97

.PHONY: help demo test coverage test-portable test-lowest docs campaign check bench clean

help:
	@echo "make demo           install gsat into .venv and run the demo on bundled data"
	@echo "make test           install the development tools, then ruff, mypy, pytest and the site, WORKERS=n at a time"
	@echo "make coverage       the tests of costs, solvers and short-cuts, and which lines of these they do not reach"
	@echo "make docs           the documentation site into docs/_build/html, its tutorials executed"
	@echo "make test-portable  the numerical tests as on other processors, and with one and two threads"
	@echo "make test-lowest    the tests of the core with the lowest versions that pyproject.toml allows, in .venv-lowest"
	@echo "make campaign       thousands of bad and damaged files, kills, full disks and hostile models; prints the counts"
	@echo "make bench          measure speed ratios side by side, write results/bench.json and the table in docs/results/speed.md"
	@echo "make clean          remove .venv and caches"

demo: .venv/run.stamp
	$(BIN)/gsat demo --force

# One thread each: the matrices of the tests are small, and threads of several workers only wait for each other. The
# tests of the core run under `coverage`, one process beside the one that writes the site.
test: check .venv/docs.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(addprefix --ignore=,$(CORE))
	@$(MAKE) --no-print-directory -j2 coverage docs

# slipcover instead of coverage: the tests take an eighth longer, not a third. It fails below the floor.
coverage: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m slipcover --source $(COVERED) --fail-under $(FLOOR) --skip-covered \
	  -m pytest -W "ignore:Module already imported so cannot be rewritten" $(CORE)

# Warnings are errors, tutorials are executed, and neither the build nor what it wrote needs a network.
docs: .venv/docs.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html
	@$(BIN)/python docs/counts.py

# As torch, MKL and OpenBLAS compute on a processor without AVX, on one with AVX2, and on this one with two threads.
test-portable: .venv/dev.stamp
	ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 $(NUMERICAL)
	ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 $(NUMERICAL)
	OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest $(NUMERICAL)

# The lowest versions of what gsat needs to run, in an environment of their own; the tools of the tests are the newest.
# INSTEAD=torch==2.13.0 takes that torch, where the lowest would bring gigabytes for a GPU that is not there.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) tests/lowest.py $(INSTEAD)) pytest hypothesis polars
	PYTHONPATH=src OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -W default $(LOWEST)

# The full counts of what `make test` runs in small; campaign.jsonl has a line for each part.
campaign: .venv/dev.stamp
	rm -f campaign.jsonl
	GSAT_CAMPAIGN=full GSAT_CAMPAIGN_REPORT=$(CURDIR)/campaign.jsonl OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -m campaign -n $(WORKERS) --maxprocesses 8 --dist worksteal tests; \
	  code=$$?; $(BIN)/python benchmarks/campaign.py campaign.jsonl && exit $$code

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
	@$(BIN)/python -m pip uninstall -qqq --yes gsat  # what this package was called before: its files would be in the way
	$(PIP) -e .
	@touch $@

.venv/dev.stamp: .venv/run.stamp
	$(PIP) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"])')
	@touch $@

.venv/docs.stamp: .venv/dev.stamp
	$(PIP) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"])')
	@touch $@

# ART and torchattacks, to compare with. --no-deps: torchattacks asks for torchvision, which it does not need here.
.venv/bench.stamp: .venv/run.stamp benchmarks/requirements.txt
	$(PIP) --no-deps -r benchmarks/requirements.txt
	@touch $@

clean:
	rm -rf .venv .venv-lowest docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
