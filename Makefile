# Commands for users, developers and CI.  Each target creates what it needs and skips what exists.
PYTHON ?= $(or $(shell command -v python3.11),python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODEL := checkpoints/flipr-untrained
CORPUS ?=
QUESTIONS ?=

.PHONY: setup model demo test check format benchmark bench bench-peers clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

model: $(MODEL)/config.json

$(MODEL)/config.json: | $(READY)
	$(BIN)/python tools/fetch_backbones.py checkpoints --name bge-small-en-v1.5
	$(BIN)/baleen init --out $(MODEL)

demo: $(READY)
	$(BIN)/baleen verify

# make benchmark UNTRAINED=1 adds a row for the untrained default: 15 minutes or more
benchmark: $(READY)
	benchmarks/run.sh

test: $(READY)
	$(BIN)/python -m pytest -m 'not slow and not gpu'

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# make bench CORPUS=corpus.jsonl.gz QUESTIONS=dev.json also measures real vectors
bench: $(READY) $(if $(CORPUS),$(MODEL)/config.json)
	$(BIN)/python benchmarks/search.py $(if $(CORPUS),--corpus $(CORPUS) --model $(MODEL) --questions $(QUESTIONS))

bench-peers: $(READY)
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
