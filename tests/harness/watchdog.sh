# Ends the servers of a test binary when the binary is gone for whatever reason:
# its end of the pipe on our stdin closes then. Lines: "pid N", "gone N", "dir
# PATH".
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
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
for dir in "$@"; do rm -rf "$dir"; done
