# Ends the servers of a test binary when the binary is gone for whatever reason:
# its end of the pipe on our stdin closes then. Lines: "pid N", "gone N", "dir
# PATH". For tests/suite.sh it writes down the CPU time of those that it ends.
trap '' INT TERM HUP
pids=
while read -r what value; do
  case $what in
    pid) pids="$pids $value" ;;
    gone)
      left=
      for pid in $pids; do [ "$pid" = "$value" ] || left="$left $pid"; done
      pids=$left
      ;;
    dir) set -- "$@" "$value" ;;
  esac
done
if [ -n "$APIFRONT_TEST_STARTS" ]; then
  ticks=$(getconf CLK_TCK)
  for pid in $pids; do
    awk -v ticks="$ticks" '{ gsub(/[()]/, ""); printf "cpu %s %.2f shared\n", $2, ($14 + $15) / ticks }' \
      "/proc/$pid/stat" 2>/dev/null >> "$APIFRONT_TEST_STARTS"
  done
  echo all >> "$APIFRONT_TEST_STARTS"
fi
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
for dir in "$@"; do rm -rf "$dir"; done
