#!/usr/bin/env bash
# Opens the status page of the demo in headless Chromium and checks what a person
# would: numbers, changes, keyboard, narrow screens, the console; and that the port
# without authentication names nobody. Keeps screenshots, and prints their folder.
# APIFRONT_TEST_BINARY names an apifront, with the feature `demo`, in place of the one
# that cargo builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
shots=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/status-page

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

command -v node > /dev/null || fail "node is needed"
chromium=$("$here/chromium.sh")
apifront=${APIFRONT_TEST_BINARY:-}
if [ -z "$apifront" ]; then
  (cd "$root" && cargo build --quiet --bin apifront --features demo)
  apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
fi
[ -x "$apifront" ] || fail "$apifront is no program"
mkdir -p "$shots"
timeout --kill-after=5 120 node "$here/page.mjs" "$chromium" "$apifront" "$shots"
