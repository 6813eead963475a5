#!/usr/bin/env bash
# Runs all tests that fail when apifront is wrong: those of the crates, and the suite
# before real servers. The first end within a minute, in which the suite mostly waits for
# its servers. Arguments go to the test programs.
set -euo pipefail
cd "$(dirname "$0")/.."

units=$(mktemp)
(
  status=0
  cargo test --workspace --lib --bins --test architecture --no-fail-fast -- "$@" > "$units" 2>&1 || status=$?
  cat "$units"
  exit "$status"
) &
beside=$!
trap 'kill "$beside" 2>/dev/null || true; rm -f "$units"' EXIT
failed=0
tests/suite.sh apifront "$@" || failed=1
# What failed is said once more, where it is looked for.
wait "$beside" || {
  failed=1
  echo 'tests of the crates failed:'
  sed -n '/^failures:$/,$p' "$units"
}
exit "$failed"
