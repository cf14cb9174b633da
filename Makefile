# make demo | run | test | test-all | check | docs | format | protos | client | bench | gpu | release
# Each verb does its own set-up: a .venv with all three distributions and the development tools, by uv; without uv on PATH, pip puts
# it into the .venv first. On Linux, PyTorch of PyPI brings 4.5 GB of CUDA: `make CPU=1 demo` takes PyTorch's CPU build instead, from its own
# index, and `make TORCH="torch --index-url URL" demo`, or TORCH=FILE.whl, any other build. It counts when .venv is made.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
READY := $(VENV)/.ready
TORCH ?= $(if $(CPU),torch --torch-backend cpu)
SYNC := sync --quiet --locked --all-packages --all-extras
# What of the lock belongs to PyTorch for CUDA, and PyTorch itself.
OWN_TORCH := $(if $(TORCH),$(shell sed -nE 's/^name = "((nvidia|cuda)-.*|torch|triton)"$$/--no-install-package \1/p' uv.lock))
# Python compiles PyTorch and transformers for 10 s in each process where it may not keep the bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo run test test-all check docs format protos client bench gpu release clean

help:  ## Show the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(READY): pyproject.toml service/pyproject.toml service/hatch_build.py workbench/pyproject.toml workbench/hatch_build.py client/bertscope/_version.py uv.lock
ifeq ($(UV),)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	$(if $(TORCH),$(BIN)/uv pip install --quiet --python $(BIN)/python $(TORCH))
	@$(BIN)/uv $(SYNC) --inexact $(OWN_TORCH) --python $(BIN)/python
else
	$(if $(TORCH),$(UV) venv --quiet --allow-existing $(VENV) && $(UV) pip install --quiet --python $(BIN)/python $(TORCH))
	@$(UV) $(SYNC) $(if $(TORCH),--inexact) $(OWN_TORCH)
endif
	@touch $@

demo: $(READY)  ## Start a server, ask it things through gRPC, stop it
	@$(BIN)/bertscope demo
	@echo "(with $(BIN)/ before bertscope, or once: . $(BIN)/activate)"

run: $(READY)  ## Serve the embedded model on 127.0.0.1:50051
	@echo "a page to look at it, in another terminal: $(BIN)/bertscope explore"
	@$(BIN)/bertscope serve

test: $(READY)  ## Run the tests, but for slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope -m "not slow"

test-all: $(READY)  ## Run all tests, those for a GPU on a pretended one, and those of numbers as on CPUs with fewer instructions
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope --pretend-gpu tests/gpu
	$(BIN)/python -m tools.capped_tests

check: $(READY)  ## Formatting, lint, types, import arrows, protos, docstrings, deployment files, known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy client/bertscope workbench/bertscope_workbench service/bertscope_service benchmarks examples tools
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.protos --check
	$(BIN)/python -m tools.protos.lint
	$(BIN)/python -m tools.uniform_calls --check
	$(BIN)/python -m tools.registrations --check
	$(BIN)/python -m tools.async_to_sync --check
	$(BIN)/python -m tools.tensor_factories
	$(BIN)/python -m tools.prose
	$(BIN)/python -m tools.structure --check
	$(BIN)/python -m tools.site --quick build/quick-site
	$(BIN)/python -m tools.deploy.check
	$(BIN)/python -m tools.deploy.audit

docs: $(READY)  ## Build the site from docs/ into build/site: pages, references, search; FULL=1 with the gallery
	$(BIN)/python -m tools.site $(if $(FULL),--full) $(foreach model,$(MODELS),--model $(model))

format: $(READY)  ## Format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

protos: $(READY)  ## Generate what is made from protos/
	$(BIN)/python -m tools.protos
	$(BIN)/python -m tools.deploy.generate

client: $(READY)  ## Generate the calls of usual shapes, the synchronous client, and the lists of public names and calls
	$(BIN)/python -m tools.uniform_calls
	$(BIN)/python -m tools.registrations
	$(BIN)/python -m tools.async_to_sync

bench: $(READY)  ## Measure against peers, side by side; a few minutes
	$(BIN)/python -m benchmarks

gpu:  ## GPU tests and benchmarks with PYTHON=..., installing nothing
	@$(PYTHON) -c "import torch, transformers" 2>/dev/null || { echo "make gpu needs an interpreter with torch and transformers: make gpu PYTHON=..."; exit 1; }
	@PYTHONPATH=client:workbench:service:. $(PYTHON) -m benchmarks.gpu

release: $(READY)  ## Wheels, sdists, SBOMs and checksums in dist/, tried in empty environments on PYTHONS="3.11 3.12 3.13"
	$(BIN)/python -m tools.release $(addprefix --python ,$(PYTHONS))

clean:  ## Remove the environment, all caches and what a release built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
