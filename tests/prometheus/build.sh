#!/usr/bin/env bash
# Builds the program of Prometheus' own engine (main.go) beside the real servers
# and prints its path as the last line.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${APIFRONT_TEST_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/apifront/kubernetes/prometheus}
mkdir -p "$out"

command -v go >/dev/null || { echo "go is needed to build tests/prometheus: see README.md" >&2; exit 1; }
stamp=$(cat "$here"/go.mod "$here"/go.sum "$here"/*.go "$here/build.sh" | sha256sum | cut -c1-16)
binary=$out/prometheus-$stamp
if [ ! -x "$binary" ]; then
  printf '%s building prometheus (Go) ...\n' "$(date +%H:%M:%S)" >&2
  # Two builds at once must not see half of a file.
  part=$(mktemp "$out/part.XXXXXX")
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$part" .)
  mv "$part" "$binary"
  # Those of earlier sources, when no checkout can be about to run them.
  find "$out" -name 'prometheus-*' -mtime +7 -delete
fi
echo "$binary"
