# `make demo` and `make test` need nothing but a clone: they make .venv, install into it once, and look for Java.
# Python is found on the PATH (3.11 or newer); `make PYTHON=/path/to/python …` names one.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv/bin
# Spark starts a Python process for each keyed stage and more: where none may keep its bytecode, each compiles the package.
export PYTHONDONTWRITEBYTECODE :=
# Folders of code; a folder that is not there yet is not asked for.
CODE := $(wildcard dataflow_model tests benchmarks examples scripts)
# Two processes: what needs Spark shares a session in one of them, the rest is taken by whichever is free.
# `make test ARGS="-n 0"` has all in one, in which a debugger can stop.
TWO := --numprocesses 2 --dist loadgroup
# Extra arguments for the program that a target runs: `make test ARGS="-k sessions"`.
ARGS ?=

.PHONY: help demo test test-all check format bench docs mutation set-up

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: set-up ## run the flights demo: in process, as a Spark batch job, as a Spark stream (writes demo.png)
	@scripts/java.sh demo $(VENV)/dataflow-model demo $(ARGS)

test: set-up ## run the tests that a change should pass before it is shown to others
	@scripts/java.sh run $(VENV)/python -m pytest -m "not slow" $(TWO) $(ARGS)

test-all: set-up ## run every test, the slow ones too
	@scripts/java.sh run $(VENV)/python -m pytest $(ARGS)

check: set-up ## lint and type-check everything, tests included, and hold the layers
	$(VENV)/ruff check $(CODE)
	$(VENV)/ruff format --check $(CODE)
	$(VENV)/mypy $(CODE)
	$(VENV)/pyright $(CODE)
	$(VENV)/lint-imports

format: set-up ## format the code and mend what the linter can mend
	$(VENV)/ruff check --fix $(CODE)
	$(VENV)/ruff format $(CODE)

bench: set-up ## measure against the hand-written alternatives (writes benchmarks/results.json)
	@scripts/java.sh run $(VENV)/python -m benchmarks $(ARGS)

mutation: set-up ## change the trigger evaluator in a thousand ways and count how many of them the tests notice (an hour)
	@$(VENV)/python scripts/mutation.py $(ARGS)

docs: set-up ## run the code blocks of README.md and docs/, and follow their links
	@scripts/java.sh run $(VENV)/python -m pytest tests/repository/test_documents.py $(ARGS)

set-up:
	@PYTHON="$(PYTHON)" scripts/set_up.sh
