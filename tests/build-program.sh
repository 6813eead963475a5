#!/usr/bin/env bash
# Builds the Go program in tests/NAME (`apiextensions`, `cel`, `encodings`, `informer`, `kine`,
# `prometheus`, `traffic`) beside the real servers and prints its path as the last
# line. It is built apart from the servers, since its sources change with the suites
# and those of the servers with releases.
set -euo pipefail
name=${1:?the name of a folder: apiextensions, cel, encodings, informer, kine, prometheus or traffic}
tests=$(cd "$(dirname "$0")" && pwd)
here=$tests/$name
[ -f "$here/main.go" ] || { echo "tests/$name has no main.go" >&2; exit 1; }
out=${APIFRONT_TEST_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/apifront/kubernetes}/$name
mkdir -p "$out"

command -v go >/dev/null || { echo "go is needed to build tests/$name: see README.md" >&2; exit 1; }
# A program may need a newer Go, which go downloads.
toolchain=$(sed -nE 's/^toolchain (go[0-9.]+)$/\1/p' "$here/go.mod")
[ -z "$toolchain" ] || export GOTOOLCHAIN=$toolchain
stamp=$(cat "$here"/go.mod "$here"/go.sum "$here"/*.go "$tests/build-program.sh" | sha256sum | cut -c1-16)
binary=$out/$name-$stamp
if [ ! -x "$binary" ]; then
  printf '%s building %s (Go) ...\n' "$(date +%H:%M:%S)" "$name" >&2
  # Two builds at the same time must not see half of a file.
  part=$(mktemp "$out/part.XXXXXX")
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$part" .)
  mv "$part" "$binary"
  # Binaries of earlier sources are deleted when no checkout can still need
  # them.
  find "$out" -name "$name-*" -mtime +7 -delete
fi
echo "$binary"
