#!/usr/bin/env bash
# Runs a tier of the suite against real servers, and says in the end how long
# each suite took, which tests were the slowest, and how each failure began. More arguments go to the test
# program: names of tests, or its options.
#
#   tests/suite.sh apifront    what fails when apifront is wrong
#   tests/suite.sh measured    what measures memory, times and shares of others,
#                              one after the other: nothing may run beside it
#   tests/suite.sh proofs      what fails when the suite or the embedded server is
#                              wrong: kube-apiserver, and the embedded server, in
#                              apifront's place
#
# TEST_THREADS is the number of tests at a time, LOG a file for the output, and
# STARTS one for who started which server.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=$1
shift

threads=${TEST_THREADS:-12}
case $tier in
  apifront) chosen=() ;;
  measured)
    chosen=(--ignored --skip ::kube_apiserver:: --skip ::embedded:: --skip ::apifront_before_embedded::)
    threads=1
    ;;
  proofs)
    chosen=(--ignored)
    [ "$#" -gt 0 ] || chosen+=(::kube_apiserver:: ::embedded:: ::apifront_before_embedded::)
    ;;
  *)
    echo "$tier is none of apifront, measured and proofs" >&2
    exit 2
    ;;
esac

# Go's servers spend a quarter of their time on garbage. What is measured beside
# apifront keeps its defaults.
[ "$tier" = measured ] || export GOGC=${GOGC:-800}

built=$(cargo test --workspace --test suite --no-run --message-format=json |
  sed -nE 's/.*"name":"suite".*"executable":"([^"]+)".*/\1/p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=${LOG:-$work/log}
: > "$work/starts"
: > "$log"
began=$SECONDS
status=0
# The times of tests are the one thing that needs the runner's unstable options. It writes
# to a file: a program that a test starts may make a pipe, which all share, fail instead of
# block, and then the runner gives up.
RUSTC_BOOTSTRAP=1 APIFRONT_TEST_STARTS=$work/starts "$built" -Z unstable-options --report-time \
  --test-threads="$threads" "${chosen[@]}" "$@" > "$log" 2>&1 < /dev/null &
program=$!
trap 'kill "$program" 2>/dev/null || true; rm -rf "$work"' EXIT
tail -n +1 -f --pid="$program" "$log" | grep --line-buffered -v ' \.\.\. ignored' || true
wait "$program" || status=$?

awk '
  match($0, /^test [^ ]+/) && match($0, /<[0-9.]+s>$/) {
    name = $2
    time = substr($0, RSTART + 1, RLENGTH - 3)
    suite = name
    sub(/::.*/, "", suite)
    tests[suite]++
    times[suite] += time
    printf "%8.1f s  %s\n", time, name > slowest
  }
  /^test [^ ]+ \.\.\. ignored, / { left_out[substr($0, index($0, "ignored, ") + 9)]++ }
  END {
    for (suite in tests)
      printf "%8.1f s in %3d tests  %s\n", times[suite], tests[suite], suite | "sort -rn"
    close("sort -rn")
    for (why in left_out)
      printf "left out: %d tests: %s\n", left_out[why], why
  }' slowest="$work/slowest" "$log"
if [ -s "$work/slowest" ]; then
  echo 'the slowest:'
  # This reads all lines: a reader that leaves early ends the sort, and with it the script.
  sort -rn "$work/slowest" | awk 'NR <= 10'
fi
awk '
  /^---- .* stdout ----$/ { print; lines = 0; failed = 1; next }
  /^failures:$/ { failed = 0 }
  failed && lines++ < 40 { print substr($0, 1, 400) }
  failed && lines == 41 { print "[…]" }
' "$log"
# What still runs when the test program ends, its watchdog ends, and says so.
[ ! -s "$work/starts" ] || for _ in $(seq 100); do ! grep -qx all "$work/starts" || break; sleep 0.1; done
[ -z "${STARTS:-}" ] || cp "$work/starts" "$STARTS"
echo "started: $(grep -vE '^(cpu |all$)' "$work/starts" | cut -d ' ' -f 1 | sort | uniq -c | sort -rn | awk '{ printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2 }')"
# A cluster that serves one test after the other counts for the first.
echo 'whose servers used the most CPU time:'
awk '$1 == "cpu" { used[$4] += $3 } END { for (test in used) printf "%8.1f s  %s\n", used[test], test }' \
  "$work/starts" | sort -rn | awk 'NR <= 10'
# The rest of the CPU time is of the test program and of short programs such as kubectl.
echo "their CPU time: $(awk '$1 == "cpu" { used[$2] += $3 } END { for (name in used) printf "%d %s\n", used[name], name }' "$work/starts" | sort -rn | awk '{ printf "%s%d s %s", (NR > 1 ? ", " : ""), $1, $2 }')"
echo "tier $tier: $((SECONDS - began)) s with $threads tests at a time, status $status"
exit "$status"
