#!/usr/bin/env bash
# Builds the kube-apiserver of one release, such as 1.32, given as the argument
# or in APIFRONT_TEST_KUBERNETES, and prints its path as the last line. Without
# either it is the release of build.sh, which also builds everything else that
# the tests need: etcd, kubectl, sample-apiserver and kwok are the same before
# every release. `release.sh list` prints all releases.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/kubernetes

version_in() { sed -nE 's/^(require)?[[:space:]]*k8s\.io\/kubernetes (v[0-9.]+)$/\2/p' "$1"; }
default=$(version_in "$here/go.mod")
default=${default#v}
default=${default%.*}
release=${1:-${APIFRONT_TEST_KUBERNETES:-$default}}

if [ "$release" = list ]; then
  { echo "$default"; ls "$here/releases"; } | sort -V
  exit
fi
if [ "$release" = "$default" ]; then
  echo "$("$here/build.sh" | tail -n 1)/kube-apiserver"
  exit
fi

module=$here/releases/$release
[ -f "$module/go.mod" ] || {
  echo "there is no module of Kubernetes $release; there are: $("$0" list | paste -sd ' ')" >&2
  exit 1
}
version=$(version_in "$module/go.mod")
out=${APIFRONT_TEST_BIN:-$cache}/$version
mkdir -p "$out"
binary=$out/kube-apiserver

command -v go >/dev/null || { echo "go is needed to build kube-apiserver $version: see README.md" >&2; exit 1; }
# Without the version ldflags kube-apiserver reports v0.0.0-master, which
# clients cannot parse, and which decides what is deprecated and emulated.
v=k8s.io/component-base/version
minor=${release#1.}
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$version"
stamp=$(echo "$ldflags" | cat - "$module/go.mod" "$module/go.sum" | sha256sum | cut -c1-16)
if [ ! -x "$binary" ] || [ "$(cat "$binary.stamp" 2>/dev/null)" != "$stamp" ]; then
  printf '%s building kube-apiserver %s (Go; minutes when cold) ...\n' "$(date +%H:%M:%S)" "$version" >&2
  # Two builds at the same time must not see half of a file.
  part=$(mktemp "$out/part.XXXXXX")
  (cd "$module" && CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$part" k8s.io/kubernetes/cmd/kube-apiserver)
  chmod 755 "$part"
  mv "$part" "$binary"
  echo "$stamp" > "$binary.stamp"
  printf '%s built kube-apiserver %s\n' "$(date +%H:%M:%S)" "$version" >&2
fi
echo "$binary"
