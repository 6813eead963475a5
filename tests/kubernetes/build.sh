#!/usr/bin/env bash
# Builds the real servers and clients that the tests run against, from Go
# modules: kube-apiserver, kubectl, etcd, sample-apiserver, kwok.
# Prints the folder that holds them as the last line. With KUBEBUILDER_ASSETS
# set to a folder that has them already (envtest's convention) nothing is built
# that is found there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=v1.37.1
out=${APIFRONT_TEST_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/apifront/kubernetes/$version}
mkdir -p "$out"

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# Without the version ldflags kube-apiserver reports v0.0.0-master, which
# clients cannot parse.
v=k8s.io/component-base/version
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=37 -X $v.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$version"

build() { # name, module folder, package
  local name=$1 dir=$2 package=$3
  if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$name" ]; then
    [ "$KUBEBUILDER_ASSETS" -ef "$out" ] || ln -sf "$KUBEBUILDER_ASSETS/$name" "$out/$name"
    return
  fi
  # One stamp per binary: the module's lock files decide whether it is stale.
  local stamp
  stamp=$(cat "$here/$dir/go.mod" "$here/$dir/go.sum" "$here/build.sh" | sha256sum | cut -c1-16)
  if [ -x "$out/$name" ] && [ "$(cat "$out/$name.stamp" 2>/dev/null)" = "$stamp" ]; then
    return
  fi
  say "building $name (Go; minutes when cold) ..."
  (cd "$here/$dir" && CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$out/$name" "$package")
  echo "$stamp" > "$out/$name.stamp"
  say "built $name"
}

command -v go >/dev/null || { say "go is needed to build the real kube-apiserver for the tests: see README.md"; exit 1; }
build etcd . go.etcd.io/etcd/server/v3
build kube-apiserver . k8s.io/kubernetes/cmd/kube-apiserver
build kubectl . k8s.io/kubernetes/cmd/kubectl
build sample-apiserver . k8s.io/sample-apiserver
build kwok ../kwok sigs.k8s.io/kwok/cmd/kwok
echo "$out"
