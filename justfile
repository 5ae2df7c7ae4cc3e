# Commands of developers, for `just` (https://just.systems). CONTRIBUTING.md explains them.

# List all recipes.
default:
    @just --list

# Build everything for debugging.
build:
    cargo build --workspace

# Format, lints and documents, as CI checks them.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --quiet -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet
    cargo test --quiet -p interleaf --test tidy

# Test one crate: just test model
test crate:
    cargo test -p {{ if crate == "cli" { "interleaf" } else { "interleaf-" + crate } }}

# Test the model, the simulator and the workloads only: takes a minute, needs no packages.
test-pure:
    cargo test -p interleaf-model -p interleaf-sim -p interleaf-workload

# Test in virtual machines (docs/vm-tests.md).
test-vm *test:
    INTERLEAF_VM=required cargo test -p interleaf-vm {{ test }}

# Download the kernels and QEMU for the virtual machines.
kernels:
    crates/vm/kernels

# Record the expected output of the command line again, and list the changed files.
goldens:
    TRYCMD=overwrite cargo test -p interleaf
    git diff --stat -- crates/cli/tests tests/machines

# Regenerate THIRD-PARTY-LICENSES.
licences:
    INTERLEAF_LICENCES=overwrite cargo test --quiet -p interleaf --test licences

# Run a benchmark: just bench replay
bench name *args:
    cargo bench -p interleaf-benches --bench {{ name }} -- {{ args }}

# Run all checks of CI. Asks before it installs packages.
ci:
    bash .ci/run

# Make a release (packaging/release): just release 0.2.0
release version:
    packaging/release {{ version }}
