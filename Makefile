# `make test` works on a fresh machine that has Python 3.11+ and make, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test test-long lint bench clean

help:
	@echo "make setup      build .venv, with the versions of constraints.txt"
	@echo "make demo       set up if needed, then privatize a corpus and fit it (minutes)"
	@echo "make test       set up if needed, then lint and each behaviour once"
	@echo "make test-long  full repetitions and slow checks"
	@echo "make lint       ruff, mypy on src, import-linter"
	@echo "make bench      speed as ratios, side by side, in one run"
	@echo "make clean      remove the environment and all caches"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "countveil needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2 -m "not long"

test-long: $(READY)
	$(BIN)/python -m pytest -n 2 -m long

demo: $(READY)
	$(BIN)/countveil demo -o demo-output

# DOCUMENTS=path/to/documents.npz and EDGES=path/to/edges.csv.gz (time, sender, recipient) benchmark real counts;
# without them, synthetic ones of the same shape.
bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python benchmarks/run.py $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(EDGES),--edges $(EDGES))

clean:
	rm -rf $(VENV) demo-output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
