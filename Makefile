# `make demo` and `make test` need nothing but a clone: they create .venv, install into it once, and look for Java.
# Python (3.11 or newer) is found on the PATH; `make PYTHON=/path/to/python …` selects another one.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv/bin
# Spark starts several Python processes for each run. If bytecode is not kept, each of them compiles the package again.
export PYTHONDONTWRITEBYTECODE :=
# Folders of code; folders that do not exist are left out.
CODE := $(wildcard dataflow_model tests benchmarks scripts)
# Two processes: one starts with all tests that need the Spark session, the other with the rest, which they then share.
# `make test ARGS="-n 0"` runs everything in one process, so that a debugger can be used.
TWO := --numprocesses 2 --dist loadgroup
# The site, built in an environment of its own. Doctrees are kept apart from what is served.
DOCS_ENVIRONMENT := build/docs-environment/bin
SPHINX = $(DOCS_ENVIRONMENT)/python -m sphinx $(SPHINX_QUIET)
SPHINX_QUIET := --quiet --doctree-dir docs/_build/doctrees
# Extra arguments for the program that a target runs: `make test ARGS="-k sessions"`.
ARGS ?=

.PHONY: help beam demo test test-all test-uncompiled test-versions test-cluster test-connectors test-sample check format bench bench-check docs docs-serve docs-external docs-set-up mutation set-up spark-classes sizes test-docs wheels

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: spark-classes ## run the flights demo in process, as a stream in process, as a Spark batch job and stream (writes demo.png)
	@scripts/java.sh demo $(VENV)/dataflow-model demo $(ARGS)

test: set-up ## run the tests that a change must pass before review
	@scripts/java.sh run $(VENV)/python -m pytest -m "not slow" $(TWO) $(ARGS)

test-all: export HYPOTHESIS_PROFILE := $(or $(HYPOTHESIS_PROFILE),$(if $(CI),ci-all,all))
test-all: set-up ## run every test, including the slow ones, with more examples per property
	@scripts/java.sh run $(VENV)/python -m pytest $(ARGS)

test-uncompiled: set-up ## run the tests that need no Spark with the core as Python, as it is without a compiler
	@DATAFLOW_MODEL_COMPILED=no $(VENV)/python -m pytest -m "not slow and not spark" $(TWO) $(ARGS)

test-versions: set-up ## run quick tests on each older PySpark and Beam that is supported (downloads 450 MB for each)
	@scripts/test_versions.sh $(ARGS)

test-cluster: set-up ## run the flights on a standalone cluster of Spark's and on YARN, whose executors have their own Python
	@scripts/java.sh run $(VENV)/python -m pytest -m cluster $(ARGS)

test-connectors: set-up ## run the tests on a broker of Kafka, which is fetched once with Maven (43 MB)
	@scripts/java.sh run $(VENV)/python -m pytest -m connectors $(ARGS)

test-sample: set-up ## run a few of the tests on a cluster and on the servers of connectors
	@scripts/java.sh run $(VENV)/python -m pytest -m sample $(ARGS)

check: set-up ## lint and type-check everything, including tests, and check the layers
	$(VENV)/ruff check $(CODE)
	$(VENV)/ruff format --check $(CODE)
	$(VENV)/mypy $(CODE)
	$(VENV)/pyright $(CODE)
	$(VENV)/lint-imports

format: set-up ## format the code and fix what the linter can fix
	$(VENV)/ruff check --fix $(CODE)
	$(VENV)/ruff format $(CODE)

beam: set-up ## run Beam's own test modules on our runners, and write the table in docs/beam.md (half an hour)
	@$(VENV)/python -m pip install --quiet "apache-beam[dataframe,yaml,tfrecord]>=2.76,<2.78" scikit-learn pyhamcrest parameterized tenacity mock
	@scripts/java.sh run $(VENV)/python -m scripts.beam $(ARGS)

bench: set-up ## measure against the hand-written alternatives (writes benchmarks/results.json)
	@scripts/java.sh run $(VENV)/python -m benchmarks $(ARGS)

bench-check: set-up ## measure, and fail if a ratio is worse by a quarter than in benchmarks/baseline.json
	@scripts/java.sh run $(VENV)/python -m benchmarks --baseline benchmarks/baseline.json --output benchmarks/.cache/bench-check.json $(ARGS)

mutation: set-up ## mutate the trigger evaluator in a thousand ways and count the mutants that tests catch (some hours)
	@$(VENV)/python scripts/mutation.py $(ARGS)

sizes: ## print the lines of code of each room of the package
	@$(or $(PYTHON),python3) scripts/sizes.py

test-docs: set-up ## run the code of the pages and follow their links, without building the site
	@$(VENV)/python -m pytest tests/repository/test_documents.py tests/repository/test_api_pages.py -m "not slow" $(TWO) $(ARGS)

docs: docs-set-up ## build the site in docs/_build/html, with the libraries of the extra `docs` alone
	@rm -rf docs/_build docs/api/generated
	@$(SPHINX) -b html --jobs auto --fail-on-warning --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html, or run make docs-serve."

docs-serve: docs-set-up ## serve the site on http://127.0.0.1:8000 and build it again whenever a page changes
	@$(DOCS_ENVIRONMENT)/python -m sphinx_autobuild $(SPHINX_QUIET) --watch README.md --watch CHANGELOG.md --re-ignore 'docs/(_build|api/generated)' docs docs/_build/html $(ARGS)

docs-external: docs-set-up ## follow the links of the site that lead to the internet
	@$(SPHINX) -b linkcheck docs docs/_build/linkcheck

wheels: ## build a source distribution and wheels with the compiled core in dist/, then install and run them
	@scripts/wheels.sh

docs-set-up:
	@PYTHON="$(PYTHON)" scripts/set_up.sh docs

set-up:
	@PYTHON="$(PYTHON)" scripts/set_up.sh

# Once for each Java: half a minute, after which each Spark session starts in about half the time.
spark-classes: set-up
	@scripts/java.sh try $(VENV)/dataflow-model prepare-spark >/dev/null || true
