#!/usr/bin/env bash
# Writes a CycloneDX document (JSON) to standard output: the crates that the release
# binary is made of on this machine's platform, from Cargo.lock by `cargo metadata`,
# with version, licence and checksum. It needs jq.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
host=$(rustc -vV | sed -n 's/^host: //p')
checksums=$(awk '/^\[\[package\]\]/ { name = ""; version = "" }
  /^name = / { gsub(/"/, "", $3); name = $3 }
  /^version = / { gsub(/"/, "", $3); version = $3 }
  /^checksum = / { gsub(/"/, "", $3); printf "%s %s %s\n", name, version, $3 }' Cargo.lock |
  jq -Rn '[inputs | split(" ") | {key: "\(.[0])@\(.[1])", value: .[2]}] | from_entries')
# Test and build dependencies of crates are no part of the binary.
cargo metadata --format-version 1 --locked --filter-platform "$host" |
  jq --argjson checksums "$checksums" '
    (.packages | map({key: .id, value: .}) | from_entries) as $packages
    | (.resolve.nodes | map({key: .id, value: [.deps[]
        | select(any(.dep_kinds[]; .kind == null)) | .pkg]}) | from_entries) as $needs
    | (.packages[] | select(.name == "apifront" and .source == null) | .id) as $root
    | def reach($seen; $next): if ($next | length) == 0 then $seen else
        ([$next[] | $needs[.][]] | unique) as $all
        | reach(($seen + $next | unique); ($all - $seen - $next)) end;
    {
      bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
      metadata: {component: {type: "application", name: "apifront", version: $packages[$root].version}},
      components: [reach([]; [$root])[] | $packages[.] | select(.id != $root)
        | "\(.name)@\(.version)" as $name
        | {
            type: "library", name, version, purl: "pkg:cargo/\($name)",
            licenses: (if .license then [{expression: .license}] else [] end),
            hashes: (if $checksums[$name] then [{alg: "SHA-256", content: $checksums[$name]}] else [] end)
          }] | sort_by(.name, .version)
    }'
