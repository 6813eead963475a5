#!/usr/bin/env bash
# Runs suites before kube-apiserver of several releases, and prints a table of
# the results. The arguments are releases such as 1.32, or 1.37+all for that
# release with all feature gates and APIs on; without them it is every release
# that tests/kubernetes knows, and the newest one with all of them on. SUITES
# names the suites, TEST_THREADS the tests at a time, STORAGE what kube-apiserver
# stores in: etcd, or kine. The logs are in the folder that the last line names.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
read -ra suites <<< "${SUITES:-cached_reads new_for_old conformance tables watch_history custom_resources discovery consistency chunked}"
# A test of another suite may have the name of a suite in its own.
for n in "${!suites[@]}"; do
  [[ ${suites[n]} == *::* ]] || suites[n]+=::
done
export APIFRONT_TEST_STORAGE=${STORAGE:-etcd}
logs=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/releases
mkdir -p "$logs"
[ "$#" -gt 0 ] || mapfile -t all < <("$tests/kubernetes/release.sh" list)
[ "$#" -gt 0 ] || set -- "${all[@]}" "${all[-1]}+all"

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

cd "$tests/.."
cargo test --workspace --test suite --no-run
[ "$APIFRONT_TEST_STORAGE" != kine ] || tests/build-program.sh kine > /dev/null
table=$(printf '%-8s %-10s %-7s %7s %7s %9s %7s %10s' release version store passed failed compared hits forwarded)
failed=0
for named in "$@"; do
  release=${named%+all}
  export APIFRONT_TEST_GATES=
  [ "$release" = "$named" ] || APIFRONT_TEST_GATES=all
  log=$logs/$named.$APIFRONT_TEST_STORAGE.log
  say "suites before Kubernetes $named on $APIFRONT_TEST_STORAGE"
  APIFRONT_TEST_KUBERNETES=$release "$tests/kubernetes/release.sh" > /dev/null
  # A suite that fails must not hide the releases after it.
  # All tiers of these suites.
  APIFRONT_TEST_KUBERNETES=$release cargo test --workspace --test suite -- \
    --include-ignored --test-threads="${TEST_THREADS:-12}" --show-output "${suites[@]}" > "$log" 2>&1 || failed=1
  table+=$'\n'$(awk -v release="$named" -v store="$APIFRONT_TEST_STORAGE" '
    /^kube-apiserver before which the suites run: / { version = $NF }
    /^test result: / { passed += $4; failed += $6; ended = 1 }
    # Each comparison says how many of its answers came from the cache.
    /^compared: [0-9]+ answers, / { compared += $2; hits += $4 }
    END {
      if (!ended) failed = "no end"
      printf "%-8s %-10s %-7s %7d %7s %9d %7d %10d\n",
        release, version, store, passed, failed, compared, hits, compared - hits
    }' "$log")
  { grep '^left out before ' "$log" || true; } | sort -u >&2
  { grep -E '^test .* FAILED$' "$log" || true; } | sort -u >&2
done
echo "$table"
echo "logs: $logs"
exit "$failed"
