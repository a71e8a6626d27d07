# The commands of the README, `make demo`, `make test` and `make test-all`, and the steps they are made of.
# Needed: Rust (rustup), make, bash, a C++ compiler, git. Optional: nasm (a codec three times as fast), Python with pip (a real clip for the demo), ffmpeg, libvpx,
# Node.js (the page of `framewire serve`), Chromium (which plays it in the tests). For `make test-all` also: room for Ray, libvpx, cargo-c.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
ADVISORIES := $(TARGET)/advisory-db
export CARGO_TERM_COLOR ?= $(if $(CI),never,auto)
# What is built once and thrown away need not be kept for the next time: it is a third of what a build takes on the disk.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.PHONY: help demo test test-all tools fetch format lint unit fuzz-check crosscheck docs advisories hash-gate vpx web browser python ray cinstall lab wheel cli gate pgo install clean
# Where `make install` puts things.
PREFIX ?= $(HOME)/.local
COMMAND := $(TARGET)/release/framewire
# The command as `test` has it optimised.
GATE := $(TARGET)/gate/framewire

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: cli ## a real clip through a real codec over a simulated cellular link; ends with a table and a report
	@tools/toolchain pip
	@tools/demo-clip "$(TARGET)/demo"
	@PATH="$(abspath $(TARGET))/demo/bin:$$PATH" "$(TARGET)/release/framewire" demo --out "$(TARGET)/demo/report"

test: tools fetch format lint python unit fuzz-check crosscheck docs advisories hash-gate browser ## every check, as the continuous integration runs them
	@tools/closing-lines "$(TARGET)/test.log"

# For more cores than two, with half a gigabyte for Ray. What else is missing is said, and skipped.
test-all: test ray cinstall ## `test`, and what is too slow or too large for two cores: Ray, cargo-c, VP8, every claim of the papers, the release's hashes
	@if pkg-config --exists vpx; then $(MAKE) --no-print-directory vpx; \
	else echo "skipped: VP8, for want of libvpx (apt-get install libvpx-dev pkg-config)"; fi
	@$(MAKE) --no-print-directory lab
	@tools/hash-gate "$(TARGET)/debug/framewire" "$(COMMAND)"

tools: ## the parts of the Rust toolchain the checks need
	@tools/toolchain c++ rustfmt clippy

fetch: ## every dependency's source, so that all that follows works without the network
	@$(CARGO) fetch --locked --quiet || $(CARGO) fetch --locked --offline
	@for beside in crosscheck fuzz; do \
	    $(CARGO) fetch --locked --quiet --manifest-path $$beside/Cargo.toml || \
	        $(CARGO) fetch --locked --offline --manifest-path $$beside/Cargo.toml; \
	done

format: ## formatting, as rustfmt would have it
	$(CARGO) fmt --all --check

lint: ## clippy, warnings as errors
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings

# The cases that property tests draw: the same each time, so that what passes once passes again. `make unit SEED=` draws others.
SEED ?= 1
DRAW = $(if $(SEED),PROPTEST_RNG_SEED=$(SEED))

unit: ## all tests, the rules of the house (imports, licences, links) among them
	@mkdir -p "$(TARGET)"
	$(DRAW) $(CARGO) test --workspace --locked 2>&1 | tee "$(TARGET)/test.log"

fuzz-check: ## the fuzz targets still compile; without libFuzzer, and with what `lint` has checked of their dependencies
	$(CARGO) check --locked --quiet --manifest-path fuzz/Cargo.toml --no-default-features --bins --target-dir "$(TARGET)"

crosscheck: ## our controllers beside other implementations of them, on the same packets
	$(DRAW) $(CARGO) test --locked --manifest-path crosscheck/Cargo.toml --target-dir "$(TARGET)/crosscheck" 2>&1 | tee -a "$(TARGET)/test.log"

docs: ## the reference, warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

advisories: ## known vulnerabilities of the dependencies, where the database can be reached
	@if tools/advisory-db "$(ADVISORIES)"; then \
	    FRAMEWIRE_ADVISORIES="$(abspath $(ADVISORIES))" $(CARGO) test --locked --quiet -p framewire-house advisory; \
	fi

hash-gate: gate ## a run is the same in debug and optimised, on one thread and on many
	@# The command as `unit` has built it: built alone it would be compiled again, with fewer features.
	@$(CARGO) test --workspace --locked --quiet --no-run
	@tools/hash-gate "$(TARGET)/debug/framewire" "$(GATE)"

vpx: ## the command with VP8 (needs libvpx: apt-get install libvpx-dev pkg-config), and the tests that use it
	@tools/toolchain c++
	$(CARGO) test --locked -p framewire-media --features vpx
	$(CARGO) test --locked -p framewire-lab --features vpx codec
	$(CARGO) test --locked -p framewire-cli --features vpx --test live vp8
	$(CARGO) build --release --locked --quiet -p framewire-cli --features vpx

web: ## the page of `framewire serve`
	@tools/web build

browser: gate ## the page's checks, and a real browser that plays
	@FRAMEWIRE_COMMAND="$(abspath $(GATE))" tools/web test

python: ## formatting, lint and types of python/, and what the package's tests among those of `unit` run on
	@if tools/toolchain pip && tools/toolchain ruff; then \
	    export PATH="$$PATH:$(TARGET)/ruff/bin"; ruff format --check python && ruff check python; \
	else echo "skipped: the checks of python/, for want of the above"; fi
	@if tools/toolchain pip && tools/toolchain pytest; then \
	    cd python && PYTHONPATH="$(abspath $(TARGET))/python" python3 -m mypy --cache-dir "$(abspath $(TARGET))/mypy" \
	        framewire examples tests/framewire; \
	else echo "skipped: types and tests of the package framewire, for want of the above"; fi

ray: wheel ## sweeps on a cluster of two nodes of Ray's, one of which is lost; apart from `test`, for Ray is half a gigabyte
	@python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$(TARGET)/ray" ray pytest numpy pyarrow \
	    "$$(ls -t "$(TARGET)"/wheels/framewire-*.whl | head -n 1)"
	cd /tmp && PYTHONPATH="$(abspath $(TARGET))/ray" python3 -m pytest -q -rs -p no:cacheprovider \
	    "$(abspath python)/tests/framewire/test_ray.py"

cinstall: ## libframewire as cargo-c installs it, and the C examples built with what is there; apart from `test`, for few have cargo-c
	@CARGO="$(CARGO)" tools/cinstall "$(TARGET)/cinstall"

lab: cli ## the default over the whole grid, where it must hold every cell, and every claim of the papers, where a miss is a result
	@"$(COMMAND)" lab grid --cc default --out "$(TARGET)/lab" | tee "$(TARGET)/grid.txt"
	@grep -q ', 0 failed' "$(TARGET)/grid.txt"
	@"$(COMMAND)" lab check --out "$(TARGET)/lab"

wheel: ## the Python package framewire, optimised, as a wheel in target/wheels
	@tools/toolchain c++ pip
	@tools/wheel "$(TARGET)"

cli: ## the optimised command
	@tools/toolchain c++
	$(CARGO) build --release --locked --quiet -p framewire-cli
	@tools/split-debug "$(COMMAND)"

gate: ## the command as `test` has it: optimised crate by crate, in little more than half the time
	@tools/toolchain c++
	$(CARGO) build --profile gate --locked --quiet -p framewire-cli

pgo: ## the command laid out by what it was seen to do, with video some 6 % faster, as target/pgo/framewire (17 minutes on two cores)
	@tools/toolchain c++
	@tools/pgo "$(TARGET)"

install: ## the command with its page, completions and manual below PREFIX (~/.local); it needs no checkout afterwards
	@tools/web build || echo "note: installed without the page of framewire serve"
	@$(MAKE) --no-print-directory cli
	install -D -m 755 "$(COMMAND)" "$(DESTDIR)$(PREFIX)/bin/framewire"
	@if [ -e "$(COMMAND).debug" ]; then install -D -m 644 "$(COMMAND).debug" "$(DESTDIR)$(PREFIX)/bin/framewire.debug"; fi
	@install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" \
	    "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	@"$(COMMAND)" completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/framewire"
	@"$(COMMAND)" completions zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_framewire"
	@"$(COMMAND)" completions fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/framewire.fish"
	"$(COMMAND)" man "$(DESTDIR)$(PREFIX)/share/man/man1"

clean: ## forget everything built
	$(CARGO) clean
