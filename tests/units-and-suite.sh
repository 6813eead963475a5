#!/usr/bin/env bash
# Runs the unit tests and, beside them, the suite: its first tests wait more than they
# work. The unit tests print when they have ended. Arguments go to both test programs.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
units() {
  local status=0
  RUST_TEST_THREADS=${UNIT_TEST_THREADS:-6} cargo test --workspace --lib --bins --test architecture \
    --no-fail-fast -- "$@" < /dev/null > "$said" 2>&1 || status=$?
  cat "$said"
  return "$status"
}

# A process group of its own, which ends with this script.
set -m
units "$@" &
set +m
group=$!
finish() {
  [ -z "$group" ] || kill -- "-$group" 2> /dev/null || true
  rm -f "$said"
}
trap finish EXIT
echo "the unit tests run beside the suite, and are printed when they have ended"
suite=0 unit=0
tests/suite.sh apifront "$@" || suite=$?
wait "$group" || unit=$?
group=
if [ "$unit" != 0 ]; then
  # What they said is far above.
  cat "$said"
  echo "unit tests have failed" >&2
fi
[ "$suite$unit" = 00 ]
