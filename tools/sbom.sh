#!/usr/bin/env bash
# Writes a CycloneDX document (JSON) to standard output: the crates that the release
# binary is made of on this machine's platform, from Cargo.lock by `cargo tree`, with
# version, licence and checksum. It needs jq.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
host=$(rustc -vV | sed -n 's/^host: //p')
checksums=$(awk '/^\[\[package\]\]/ { name = ""; version = "" }
  /^name = / { gsub(/"/, "", $3); name = $3 }
  /^version = / { gsub(/"/, "", $3); version = $3 }
  /^checksum = / { gsub(/"/, "", $3); printf "%s %s %s\n", name, version, $3 }' Cargo.lock |
  jq -Rn '[inputs | split(" ") | {key: "\(.[0])@\(.[1])", value: .[2]}] | from_entries')
# Dependencies of tests and of builds are no part of the binary, nor are those of
# features that only tests turn on, which `cargo metadata` does not tell apart.
parts=$(cargo tree --locked --package apifront --edges normal --target "$host" --prefix none --format '{p}' |
  jq -Rn '[inputs | capture("^(?<name>[^ ]+) v(?<version>[^ ]+)") | {key: "\(.name)@\(.version)", value: true}] | from_entries')
cargo metadata --format-version 1 --locked --filter-platform "$host" |
  jq --argjson checksums "$checksums" --argjson parts "$parts" '
    (.packages[] | select(.name == "apifront" and .source == null)) as $root
    | {
      bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
      metadata: {component: {type: "application", name: "apifront", version: $root.version}},
      components: [.packages[] | select(.id != $root.id)
        | "\(.name)@\(.version)" as $name
        | select($parts[$name])
        | {
            type: "library", name, version, purl: "pkg:cargo/\($name)",
            licenses: (if .license then [{expression: .license}] else [] end),
            hashes: (if $checksums[$name] then [{alg: "SHA-256", content: $checksums[$name]}] else [] end)
          }] | sort_by(.name, .version)
    }'
