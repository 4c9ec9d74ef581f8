# Plain venv and pip; `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/.base
SITE   := $(VENV)/.site
STAMP  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo federation-demo test attacks check docs sbom audit requirements tutorials picture bench bench-quick paper paper-quick clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything, the exact versions and hashes of requirements*.txt

# Three steps, each on top of the one before: fedcsa itself, a site of a federation, the tools of developers.
# The lists are whole, so pip looks for nothing else: a newer version of a package changes nothing here.
$(BASE): pyproject.toml requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedcsa needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing fedcsa into $(VENV) (0.6 GB, a minute or so, the first time only)"
	@$(PIP) --no-deps --require-hashes -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(SITE): $(BASE) requirements-site.txt
	@echo "Adding what a site of a federation needs (0.3 GB more, the first time only)"
	@$(PIP) --no-deps --require-hashes -r requirements-site.txt
	@touch $@

$(STAMP): $(SITE) requirements-dev.txt
	@echo "Adding the tools of developers (0.6 GB more, the first time only)"
	@$(PIP) --no-deps --require-hashes -r requirements-dev.txt
	@touch $@

demo: $(BASE)  ## run the built-in consortium: five hospitals and a new one
	@$(BIN)/fedcsa demo --out demo

federation-demo: $(SITE)  ## run a real federation on this machine: a server, a target, four sources
	@rm -rf federation-demo
	@$(BIN)/fedcsa federation demo --out federation-demo

# Arithmetic and messages are measured by their own tests, and nothing else is: that takes half as long again.
MEASURED := tests/core tests/messages
# Hundreds of commands are started: let them find compiled files, as those of users do.
PYTEST   := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder -q
CORES    := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')

# The engine's tests wait more than they compute, so they begin first, with a worker of their own beside
# those of the cores. One more would cost what it computes to collect all tests once more.
test: $(STAMP)  ## run every test, the examples in the docs and the coverage gate
	$(PYTEST) -n $(CORES) $(MEASURED) --cov=fedcsa.core --cov=fedcsa.messages --cov-report=
	$(BIN)/coverage report --include='src/fedcsa/core/*,src/fedcsa/messages/*' --fail-under=95 --skip-covered
	$(PYTEST) -n $$(($(CORES) + 1)) tests/federation tests docs src $(addprefix --ignore=,$(MEASURED))

attacks: $(STAMP)  ## every known attack, each with the figure that it reaches
	FEDCSA_WHOLE_FUZZ=1 $(PYTEST) -n $(CORES) tests/attacks -rA

check: $(STAMP)  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)  ## build the documentation; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

sbom: $(STAMP)  ## write the software bill of materials (CycloneDX) to dist/
	@$(BIN)/python .ci/write_sbom.py dist/fedcsa.cdx.json

audit: $(STAMP)  ## ask for known vulnerabilities of requirements-dev.txt; says so where nobody answers
	@$(BIN)/python .ci/audit.py requirements-dev.txt dist/audit.json

# pip accepts no hashes beside a requirement without a version, so the old versions go in without them.
RENEWED := build/requirements
requirements:  ## write requirements*.txt with the versions they have; UPGRADE=1 for the newest
	@rm -rf $(RENEWED) && $(PYTHON) -m venv $(RENEWED)
	@$(if $(UPGRADE),true,sed -n 's/^\([a-z].*==[^ ]*\).*/\1/p' requirements*.txt) > $(RENEWED)/versions.txt
	@$(RENEWED)/bin/python -m pip install --quiet --disable-pip-version-check -c $(RENEWED)/versions.txt '.[dev]'
	@$(RENEWED)/bin/python .ci/write_requirements.py .

tutorials: $(STAMP)  ## run the tutorials on the data in FEDCSA_DATA, and keep what they print and draw
	$(BIN)/python docs/record.py

picture: $(STAMP)  ## take the picture of the demo's report for the README (needs chromium)
	$(BIN)/python docs/picture.py

bench: $(STAMP)  ## measure every promise about speed, beside peers, and write its page (half an hour)
	$(BIN)/python -m benchmarks

bench-quick: $(STAMP)  ## the same scripts on tiny tables: do they run? (three minutes; results/bench)
	$(BIN)/python -m benchmarks --quick

PAPER := theorems bound assumption bandwidth table1 recut figure2 parkinsons_tables
# make paper DATA=folder: where the stroke trial and the Parkinson data are.
paper paper-quick: export FEDCSA_DATA := $(or $(DATA),$(FEDCSA_DATA))
# Where data are absent a script says so and fails; the others still run.
run-scripts = failed=; told=; for script in $(1); do \
	echo "$$script …"; start=$$(date +%s); $(BIN)/python experiments/paper/$$script.py $(2) || failed="$$failed $$script"; \
	told="$$told\n  $$script: $$(($$(date +%s) - start)) s"; done; \
	printf "seconds of every script:$$told\n"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

paper: $(STAMP)  ## every table, figure and theorem of the paper, and its page (five minutes on two free cores); DATA=folder
	@$(call run-scripts,$(PAPER) write_reproduction)

paper-quick: $(STAMP)  ## the same in under two minutes: does it run? (results/quick); DATA=folder
	@$(call run-scripts,$(PAPER),--quick)

clean:  ## remove what was built, and the environment
	rm -rf $(VENV) dist build docs/_build docs/generated docs/api/generated .mypy_cache .ruff_cache .pytest_cache .coverage demo federation-demo
