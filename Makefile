# What developers and .ci/run call. Real-network tests are part of `make test`: they make private namespaces of their
# own and leave nothing behind.
CARGO ?= cargo
# Without the headers of libelf and zlib, all but eBPF congestion controls is built.
FLAGS = $(shell scripts/prerequisites --cargo-flags)

.PHONY: all build test test-rust test-python test-python-here test-clusters lint lint-python audit coverage bench demo dist wheel python-lock bpf fuzz chaos to-build to-run to-test

all: build

build: to-build
	$(CARGO) build --release $(FLAGS)

# What the system lacks is named, and installed where that is allowed.
to-build:
	@scripts/prerequisites build
to-run:
	@scripts/prerequisites run
to-test:
	@scripts/prerequisites test

# The tests that move packets need to be root: for a plain user, in a user namespace of their own where that is allowed.
# Where neither is possible they are skipped, or fail if BENTPIPE_MUST_RUN is set.
test: test-rust test-python

test-rust: to-run
	$(CARGO) test --workspace $(FLAGS) --no-run
	@if [ "$$(id -u)" = 0 ] || ! unshare --user --map-root-user --net --mount true 2>/dev/null; then \
	  $(CARGO) test --workspace $(FLAGS) --no-fail-fast; \
	else \
	  unshare --user --map-root-user --net --mount \
	    sh -c 'mount -t tmpfs none /run && ip link set lo up && exec $(CARGO) test --workspace $(FLAGS) --no-fail-fast'; \
	fi

# The Python package, in an environment of its own with what python/requirements.txt pins. Without Python, or where the pinned packages
# cannot be fetched, its tests are skipped, or fail if BENTPIPE_MUST_RUN is set.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
PYTHON ?= python3
VENV = $(TARGET)/venv
HAS_PYTHON = $(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
NEEDS_PYTHON = the tests of the Python package need Python 3.11 or later with venv (PYTHON=... chooses one)

test-python: to-test
	@if ! $(HAS_PYTHON); then missing="$(NEEDS_PYTHON)"; \
	elif ! $(MAKE) --no-print-directory $(VENV)/current; then missing="what the tests of the Python package need cannot be installed"; \
	else exec $(MAKE) --no-print-directory test-python-here; fi; \
	if [ -n "$$BENTPIPE_MUST_RUN" ]; then echo "make: $$missing" >&2; exit 1; fi; echo "make: skipped: $$missing" >&2

# The command is that of `test-rust`: `cargo build` would choose other features of its dependencies, and compile them again.
test-python-here: $(VENV)/current
	$(CARGO) test --workspace $(FLAGS) --no-run --quiet --test cli
	mkdir -p python/bentpipe.data
	cd python && VIRTUAL_ENV=$(VENV) CARGO_TARGET_DIR=$(TARGET) $(VENV)/bin/maturin develop --locked --quiet
	cd python && BENTPIPE=$(TARGET)/debug/bentpipe $(VENV)/bin/python -m pytest -q

# Sweeps on Dask and Ray, with workers that are killed: what they need is large, so that `make test` leaves it out.
test-clusters: $(VENV)/current
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r python/requirements-clusters.txt
	mkdir -p python/bentpipe.data
	cd python && VIRTUAL_ENV=$(VENV) CARGO_TARGET_DIR=$(TARGET) $(VENV)/bin/maturin develop --release --locked --quiet
	cd python && $(VENV)/bin/python -m pytest -q clusters

$(VENV)/current: python/requirements.txt
	@$(HAS_PYTHON) || { echo "make: $(NEEDS_PYTHON)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r python/requirements.txt
	touch $@

# Pins what the tests of the package need, with hashes: needs uv.
python-lock:
	cd python && for name in requirements requirements-clusters; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    $$name.in --output-file $$name.txt || exit 1; \
	done

# A wheel for any Linux of this architecture that has Python 3.10 or later, glibc or musl, with the command; in target/wheels.
wheel: $(VENV)/current
	PATH="$$PATH:$(VENV)/bin" scripts/wheel

lint: lint-python
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace $(FLAGS) --all-targets -- -D warnings
	.ci/sans-io
	@# What is packed is linked with musl, whose names and types differ from glibc's.
	@if [ -d "$$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-musl" ]; then \
	  $(CARGO) check --package bentpipe-kernel --target x86_64-unknown-linux-musl; fi

lint-python:
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	@$(CARGO) metadata --locked --manifest-path python/Cargo.toml --format-version 1 >/dev/null || { \
	  echo "make lint: python/Cargo.lock is not that of the crates: cargo update --workspace --manifest-path python/Cargo.toml" >&2; exit 1; }

# Licences, advisories, banned crates and sources of dependencies (deny.toml). Advisories need the network;
# CHECKS="licenses bans sources" leaves them out.
audit:
	@command -v cargo-deny >/dev/null || { \
	  echo "make audit: cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny check $(or $(CHECKS),advisories licenses bans sources)
	$(CARGO) deny --manifest-path python/Cargo.toml check --config $(CURDIR)/deny.toml $(or $(CHECKS),advisories licenses bans sources)

# Lines of the core crates that their tests run, by crate. .ci/coverage --uncovered lists those that none runs.
coverage:
	.ci/coverage

bench: build
	$(CARGO) bench --workspace
	$(CARGO) bench -p bentpipe-sim --bench sim -- --peers
	$(CARGO) run --release $(FLAGS) --bin bentpipe -- bench proxies hub stalled echo throughput connections

# Every fuzz target for a minute each; SECONDS_EACH chooses another time.
fuzz:
	fuzz/run.sh $(or $(SECONDS_EACH),60)

# 100,000 transfers under faults in virtual time, and half an hour of real ones.
chaos: build
	$(CARGO) run --release $(FLAGS) --bin bentpipe -- chaos --transfers 100000
	$(CARGO) run --release $(FLAGS) --bin bentpipe -- chaos --real --transfers 10000 --minutes 30

# Static programs and packages of them, in target/dist; ARCHITECTURES="x86_64 aarch64" chooses.
dist:
	scripts/dist $(ARCHITECTURES)

demo: to-run
	$(CARGO) run --release $(FLAGS) --bin bentpipe -- demo

# The congestion controls' eBPF objects, which are in the repository: needs clang and llvm-strip, and is needed only after a
# change of their sources (CLANG and LLVM_STRIP choose others than those of these names).
bpf:
	$(MAKE) -C crates/congestion/bpf
