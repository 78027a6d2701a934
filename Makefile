# make demo      set everything up and train on built-in data
# make test      set everything up and run every check, in a few minutes
# make test-all  the same with what takes long and rarely breaks, before a release
# make faults    kill sites and servers of real federations, for some twenty minutes
# make deployed  every method on real engines, beside the simulation, for about an hour
# make docs      the documentation as a site, in site/
# make pages     write anew what pages of the documentation say of the code
# make setup     the virtual environment alone

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# One process per core; tests that share a live federation stay together.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadgroup
# Spinning OpenMP threads slow a shared machine a hundredfold.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: setup demo test test-all check faults deployed docs pages clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/atoll compare --data digits --partition random --clients 10 --rounds 60 \
	  --set split.train=0.06 --set split.val=0.3 --set split.test=0.6

test: check
	$(PYTEST) -m "not long"

test-all: check
	$(PYTEST)

faults: setup
	$(BIN)/python benchmarks/faults.py

deployed: setup
	$(BIN)/python benchmarks/deployed.py --engine nvflare
	$(BIN)/python benchmarks/deployed.py --engine flower --rounds 1

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html"

pages: setup
	$(BIN)/atoll audit --page docs/what-leaves-a-site.md
	$(BIN)/python pages/method_pages.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache runs site
