#!/usr/bin/env bash
# Plays systemctl for the services and timers of examples/in-place: what a unit runs, it
# runs here, with the unit's capabilities. A minute of a timer takes a second. What it
# does not play are the other restrictions of a unit. UNITS and PLAYED are folders.
set -euo pipefail
units=${UNITS:-/etc/systemd/system}

field() { sed -n "s/^$2=//p" "$units/$1"; } # unit, name

start_service() {
  local command kept
  command=$(field "$1" ExecStart)
  kept=$(field "$1" CapabilityBoundingSet | sed -E 's/CAP_//g; s/ +/,+/g; s/^./+&/' | tr '[:upper:]' '[:lower:]')
  # shellcheck disable=SC2086 # A command is several words.
  setpriv --bounding-set="-all${kept:+,$kept}" --inh-caps=-all --no-new-privs $command
}

run_timer() {
  local seconds
  seconds=$(field "$1" OnUnitInactiveSec | sed -nE 's/^([0-9]+)min$/\1/p')
  [ -n "$seconds" ] || { echo "$1 has no OnUnitInactiveSec in minutes" >&2; exit 1; }
  while sleep "$seconds"; do
    start_service "$(field "$1" Unit)" >> "$PLAYED/timer.log" 2>&1 || true
  done
}

case "$*" in
  daemon-reload) ;;
  "start "*.service) start_service "$2" ;;
  "enable --now "*.timer)
    [ -f "$units/$3" ] || { echo "$3 does not exist" >&2; exit 1; }
    [ -e "$PLAYED/$3" ] || {
      run_timer "$3" < /dev/null > /dev/null 2>&1 9>&- &
      echo "$!" > "$PLAYED/$3"
    }
    ;;
  "disable --now "*.timer)
    if [ -e "$PLAYED/$3" ]; then
      kill -TERM "$(cat "$PLAYED/$3")"
      rm "$PLAYED/$3"
    fi
    ;;
  *)
    echo "systemctl.sh does not play: $*" >&2
    exit 1
    ;;
esac
