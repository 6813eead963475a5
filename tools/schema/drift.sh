#!/usr/bin/env bash
# Prints how the built-in types differ between releases of Kubernetes, as a
# table. The arguments are versions of k8s.io/api such as v0.31.14; without them
# it is the newest of each release that tests/kubernetes pins. The generator is
# built with the types of each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pins=$here/../../tests/kubernetes
cache=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/schema
if [ "$#" -eq 0 ]; then
  mapfile -t versions < <(sed -nE 's/^(require)?[[:space:]]*k8s\.io\/kubernetes v1(\.[0-9.]+)$/v0\2/p' "$pins"/releases/*/go.mod "$pins/go.mod" | sort -uV)
  set -- "${versions[@]}"
fi

cd "$here"
files=()
for version in "$@"; do
  folder=$cache/$version
  file=$folder/kubernetes.txt
  mkdir -p "$folder"
  if [ ! -s "$file" ]; then
    echo "$(date +%H:%M:%S) types of $version (Go; a minute when cold) ..." >&2
    # Only what is required directly: the release says the rest.
    sed -E "/indirect$/d; s/^(\tk8s\.io\/.*) v0\..*/\1 $version/" go.mod > "$folder/go.mod"
    : > "$folder/go.sum"
    go run -mod=mod -modfile="$folder/go.mod" . > "$file.part"
    mv "$file.part" "$file"
  fi
  files+=("$file")
done
go run . drift "${files[@]}"
