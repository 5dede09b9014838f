# What developers and .ci/run call. Real-network tests are part of `make test`: they make private namespaces of their
# own and leave nothing behind.
CARGO ?= cargo

.PHONY: all build test lint bench demo

all: build

build:
	$(CARGO) build --release

test:
	$(CARGO) test --workspace

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	.ci/sans-io

bench: build
	$(CARGO) bench --workspace
	$(CARGO) run --release --bin bentpipe -- bench peers hub stalled echo throughput connections

demo: build
	$(CARGO) run --release --bin bentpipe -- demo
