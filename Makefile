# Everything on a fresh machine with Python 3.11+ and a Rust toolchain. `make help` lists the verbs.
PYTHON ?= python3
BIN := .venv/bin
RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find core_rs -name '*.rs' -o -name Cargo.toml)

.PHONY: help run build dev lint test test-all bench docs wheel clean
help:      ## list the verbs
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 12
run: target/.release      ## build the release core and run the mixed-fleet scenario
	$(BIN)/planner run scenarios/02-mixed-fleet.yaml
build: target/.release      ## install the package with the release core into .venv
dev: target/.dev      ## install the package with a quickly built core and the test tools into .venv
lint: target/.dev      ## formatting, lints, types, import layers, stub
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check planner tests
	$(BIN)/ruff check planner tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m mypy.stubtest planner._core --concise
test: lint      ## all fast tests: cargo, pytest, and what lint checks
	cargo test --workspace --quiet
	$(BIN)/pytest -m 'not slow'
test-all: lint      ## every test, the slow ones too
	cargo test --workspace --quiet
	HYPOTHESIS_PROFILE=slow $(BIN)/pytest
bench: target/.release      ## benchmarks, one JSON line a figure
	$(BIN)/python -m tests.bench
docs: target/.dev      ## write the generated pages, build the documentation into site/
	$(BIN)/python -m tests.docs
	$(BIN)/mkdocs build --quiet
wheel: .venv/ready      ## a wheel in dist/
	$(BIN)/maturin build --release --out dist
clean:      ## remove what the build made
	rm -rf .venv target dist planner/_core.abi3.so

.venv/ready:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "planner needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip 'maturin>=1.16,<2'
	touch $@
target/.dev: .venv/ready $(RUST)
	$(BIN)/maturin develop --quiet --extras dev
	rm -f target/.release && touch $@
target/.release: .venv/ready $(RUST)
	$(BIN)/maturin develop --quiet --release
	rm -f target/.dev && touch $@
