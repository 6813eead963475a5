#!/usr/bin/env bash
# Checks the crates that are published on their own: their documents, the package as
# cargo would upload it, and their API. The API may not break one that has the same
# version: that of a git revision, which is the first argument. Without it, that is the
# newest release of the crate, or HEAD before its first.
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=${1:-}

for crate in kubernetes-wire; do
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps -p "$crate"
  # What is not committed yet is checked, too.
  cargo publish --locked --dry-run --allow-dirty -p "$crate"
  if ! command -v cargo-semver-checks >/dev/null; then
    echo "cargo-semver-checks is not installed: API of $crate not compared (it builds" \
      "for minutes: cargo install --locked --debug cargo-semver-checks@0.51.0)"
    continue
  fi
  released=$(git describe --tags --abbrev=0 --match "$crate-*" 2>/dev/null || echo HEAD)
  # In one target folder, cargo takes the documents of one revision for the other's.
  env -u CARGO_TARGET_DIR cargo semver-checks -p "$crate" --baseline-rev "${baseline:-$released}"
  rm -rf target/semver-checks
done
