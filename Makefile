.PHONY: help build demo test test-page check bench engines test-engines

help:
	@echo "make demo          three stand-in engines with Pointsman in front, on this machine"
	@echo "make test          all tests that need no real engine"
	@echo "make test-page     the dashboard in a real Chromium (installs Debian's chromium and node where they are missing)"
	@echo "make check         formatting, lints and make test"
	@echo "make build         the release binary, target/release/pointsman"
	@echo "make bench         Pointsman beside bare Pingora, nginx and HAProxy (takes about 5 minutes)"
	@echo "make test-engines  the tests against real vLLM and llama.cpp (about 7 GB to install)"

build:
	@scripts/prerequisites.sh
	cargo build --release

demo: build
	target/release/pointsman demo

test:
	@scripts/prerequisites.sh
	cargo test

# The dashboard in headless Chromium. With PICTURE=docs/dashboard.png it takes the README's picture instead.
test-page:
	@scripts/prerequisites.sh
	tests/dashboard/run.sh $(PICTURE)

check:
	@scripts/prerequisites.sh
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo clippy --test engines -- -D warnings
	$(MAKE) test

# ROUNDS and SECONDS_EACH change the length. Prints markdown.
bench: build
	@scripts/prerequisites.sh bench
	cargo bench --bench proxies -- run

# Real vLLM and llama.cpp, about 7 GB in ~/.cache/pointsman-engines (or $POINTSMAN_ENGINES); quick when they are there.
engines:
	tests/engines/install-vllm.sh
	tests/engines/install-llama.sh

# Pointsman in front of them. POINTSMAN_ENGINES_REQUESTS=10000 makes the run with a killed replica longer.
test-engines: engines
	cargo test --test engines -- --test-threads=1
