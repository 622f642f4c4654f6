# `make test` works on a fresh machine that has Python 3.11+ and make, and nothing else.
# With PYTHON=python3.13 the environment is built anew for that Python, unless VENV names another folder
# (VENV=.venv-3.13) that then stands beside the first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
READY := $(VENV)/.ready-$(VERSION)

.PHONY: help setup demo test test-short test-long test-oldest test-ray attacks fuzz lint bench priors prevalence side-channels paper clean

help:
	@echo "make setup        build .venv, with the versions of constraints.txt"
	@echo "make demo         set up if needed, then privatize a corpus and fit it (minutes)"
	@echo "make test         set up if needed, then lint and each behaviour once"
	@echo "make test-short   the same without lint"
	@echo "make test-long    full repetitions and slow checks"
	@echo "make test-oldest  a part of the tests, on Python 3.11 with the lowest versions pyproject.toml promises"
	@echo "make test-ray     the Ray engine, on a cluster of three on this machine (installs Ray, 80 MB)"
	@echo "make attacks      the attacks of SECURITY.md, in full"
	@echo "make fuzz         crafted files against every reader: make fuzz SECONDS=600 SEED=7"
	@echo "make lint         ruff, mypy on src, import-linter"
	@echo "make bench        speed as ratios, side by side, in one run"
	@echo "make priors       fixed and inferred priors side by side (1.5 hours of one core; PROCESSES=16 fits at a time)"
	@echo "make prevalence   how often intervals of groups hold the truth, by simulation (an hour)"
	@echo "make side-channels  what time and file size tell about the counts (a minute)"
	@echo "make paper        tables of docs/paper.md from the studies beside it"
	@echo "make clean        remove the environment and all caches"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "countveil needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	$(BIN)/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null || \
		$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Lint takes one core and half a minute, so it runs beside the tests.
test: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 lint test-short

test-short: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long"

test-long: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long

# Ray is large: not for everyone who runs the tests.
test-ray: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray]'
	COUNTVEIL_TEST_RAY=1 $(BIN)/python -m pytest -n 0 -m "long or not long" tests/inference/test_ray.py

# What SECURITY.md says was tried.
attacks: $(READY)
	$(BIN)/python -m pytest -n 2 -m "long or not long" tests/privacy tests/auditing tests/counts \
		tests/posterior/test_strangers_runs.py tests/posterior/test_damaged_runs.py tests/cli/test_nasty_labels.py tests/fuzz

# The same SEED makes the same files; what is found is saved in fuzz-findings.
SECONDS ?= 180
fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Not lint, and not every test: what is read, drawn, saved and shown through other people's libraries.
OLDEST := .venv-oldest
OLDEST_PYTHON ?= python3.11
test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest -n 2 -m "not long" -W ignore::DeprecationWarning tests/test_imports.py \
		tests/privacy/test_add_noise.py tests/counts/test_privatize.py tests/counts/test_inputs.py tests/counts/test_records.py \
		tests/counts/test_files.py tests/counts/test_folder.py tests/posterior/test_round_trip.py \
		tests/posterior/test_tree.py tests/posterior/test_summary.py tests/report tests/cli

$(OLDEST)/.ready: pyproject.toml oldest-constraints.txt
	$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --constraint oldest-constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/countveil demo -o demo-output

# DOCUMENTS=path/to/documents.npz and EDGES=path/to/edges.csv.gz (time, sender, recipient) benchmark real counts;
# without them, synthetic ones of the same shape.
bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python benchmarks/run.py $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(EDGES),--edges $(EDGES))

priors: $(READY)
	$(BIN)/python benchmarks/priors.py $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(EDGES),--edges $(EDGES)) \
		$(if $(PROCESSES),--processes $(PROCESSES))

prevalence: $(READY)
	$(BIN)/python benchmarks/prevalence.py

side-channels: $(READY)
	$(BIN)/python benchmarks/side_channels.py

# The numbers themselves are made by the commands that the page names, into docs/studies.
paper: $(READY)
	$(BIN)/python -m countveil.studies.page docs/paper.md

clean:
	rm -rf $(VENV) $(OLDEST) demo-output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
