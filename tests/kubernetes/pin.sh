#!/usr/bin/env bash
# Writes the Go module of kube-apiserver in one more release, or in another
# patch of a release, such as `pin.sh v1.34.10`: go.mod, go.sum and tools.go in
# releases/1.34.
set -euo pipefail
version=${1:?a version of k8s.io/kubernetes such as v1.34.10}
[[ $version =~ ^v1\.([0-9]+)\.([0-9]+)$ ]] || { echo "$version is not of the form v1.N.P" >&2; exit 1; }
staging=v0.${BASH_REMATCH[1]}.${BASH_REMATCH[2]}
out=$(cd "$(dirname "$0")" && pwd)/releases/1.${BASH_REMATCH[1]}
theirs=$(cd / && go mod download -json "k8s.io/kubernetes@$version" | sed -nE 's/.*"GoMod": "(.*)".*/\1/p')

mkdir -p "$out"
rm -f "$out/go.sum"
{
  cat <<TEXT
// kube-apiserver of one release, which the suites run before (see ../../pin.sh).
// Every k8s.io staging module must be pinned to the release: k8s.io/kubernetes
// requires them at v0.0.0 and replaces them with folders of its own repository.
module apifront.dev/tests/kubernetes/releases/1.${BASH_REMATCH[1]}

TEXT
  # The versions of the language and of the standard library's behaviour are
  # those with which the release is built.
  sed -nE '/^(go|godebug) /p' "$theirs"
  printf '\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$version"
  sed -nE "s/^\t(k8s\.io\/[a-z-]+) => \.\/staging\/.*/\t\1 => \1 $staging/p" "$theirs"
  echo ')'
} > "$out/go.mod"
cat > "$out/tools.go" <<'TEXT'
//go:build tools

// Package kubernetes pins the kube-apiserver that release.sh builds.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
TEXT
cd "$out"
# Tests of Kubernetes' packages may need modules that cannot be had. Their
# absence matters only if kube-apiserver itself needs them.
go mod tidy -e
go list -deps k8s.io/kubernetes/cmd/kube-apiserver > /dev/null
