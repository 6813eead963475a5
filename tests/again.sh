#!/usr/bin/env bash
# Runs the suite again and again, each time in another order, and prints what failed and
# how often. `tests/suite.sh apifront --shuffle-seed N` repeats an order. The arguments go
# to the test program. TIMES is the number of runs, LOAD the number of processes that keep
# a processor busy beside them. "stolen" are the seconds that a hypervisor gave to others:
# if it stops this machine for long, nobody answers in time.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${TIMES:-20} load=${LOAD:-0}
logs=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/again
mkdir -p "$logs"
rm -f "$logs"/*.log

busy=()
for ((n = 0; n < load; n++)); do
  (while :; do :; done) &
  busy+=($!)
done
trap '[ "${#busy[@]}" = 0 ] || kill "${busy[@]}"' EXIT

stolen() { awk '$1 == "cpu" { printf "%d", $9 / '"$(getconf CLK_TCK)"' }' /proc/stat; }

printf '%-5s %12s %8s %8s %8s %8s  %s\n' run seed seconds stolen passed failed 'what failed'
wrong=0
for ((run = 1; run <= times; run++)); do
  log=$logs/$run.log
  began=$SECONDS stolen_before=$(stolen)
  seed=$((RANDOM * 32768 + RANDOM))
  LOG=$log tests/suite.sh apifront --shuffle-seed "$seed" "$@" > /dev/null 2>&1 || true
  counts=$(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log")
  names=$(sed -nE 's/^test ([^ ]+) \.\.\. FAILED.*/\1/p' "$log" | paste -sd ' ')
  read -r passed failed <<< "${counts:-0 -}"
  [ "$failed" = 0 ] || wrong=$((wrong + 1))
  printf '%-5d %12d %8d %8d %8s %8s  %s\n' "$run" "$seed" $((SECONDS - began)) \
    $(($(stolen) - stolen_before)) "$passed" "$failed" "${names:-${counts:+-}}"
done
echo "$wrong of $times runs failed, with $load busy processes beside them; logs: $logs"
sed -nsE 's/^test ([^ ]+) \.\.\. FAILED.*/\1/p' "$logs"/*.log | sort | uniq -c | sort -rn
[ "$wrong" = 0 ]
