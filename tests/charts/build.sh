#!/usr/bin/env bash
# Builds what run.sh needs besides the servers of tests/kubernetes/build.sh, from
# Go modules: helm, kustomize, kube-controller-manager and kube-scheduler, and
# kubeadm for tests/in-place. Prints the folder that holds them as the last line.
# Arguments name the ones to build.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${APIFRONT_TEST_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/apifront/kubernetes}/charts
mkdir -p "$out"

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
version_of() { sed -nE "s|^(require)?[[:space:]]*$2 (v[0-9.]+)$|\2|p" "$here/$1/go.mod"; } # module folder, module

build() { # name, module folder, package, linker flags
  local name=$1 dir=$2 package=$3 flags="-s -w $4" stamp part
  stamp=$(cat "$here/$dir/go.mod" "$here/$dir/go.sum" "$here/build.sh" | sha256sum | cut -c1-16)
  if [ -x "$out/$name" ] && [ "$(cat "$out/$name.stamp" 2>/dev/null)" = "$stamp" ]; then
    return
  fi
  say "building $name (Go; minutes when cold) ..."
  # Two builds at the same time must not see half of a file.
  part=$(mktemp "$out/part.XXXXXX")
  (cd "$here/$dir" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$part" "$package")
  chmod 755 "$part"
  mv "$part" "$out/$name"
  echo "$stamp" > "$out/$name.stamp"
}

# The chart asks for a release of Kubernetes, so helm must know that of the tests
# when it asks no server.
kubernetes=$(version_of controllers k8s.io/kubernetes)
minor=${kubernetes#v1.}
minor=${minor%%.*}
helm=$(version_of . helm.sh/helm/v3)
kube=k8s.io/component-base/version
chart=helm.sh/helm/v3/pkg
helm_flags="-X helm.sh/helm/v3/internal/version.version=$helm"
helm_flags+=" -X $chart/lint/rules.k8sVersionMajor=1 -X $chart/lint/rules.k8sVersionMinor=$minor"
helm_flags+=" -X $chart/chartutil.k8sVersionMajor=1 -X $chart/chartutil.k8sVersionMinor=$minor"
kube_flags="-X $kube.gitVersion=$kubernetes -X $kube.gitMajor=1 -X $kube.gitMinor=$minor"

command -v go >/dev/null || { say "go is needed to build helm for the tests: see README.md"; exit 1; }
[ "$#" -gt 0 ] || set -- helm kustomize kube-controller-manager kube-scheduler
for name in "$@"; do
  case $name in
    helm) build helm . helm.sh/helm/v3/cmd/helm "$helm_flags" ;;
    kustomize) build kustomize . sigs.k8s.io/kustomize/kustomize/v5 "" ;;
    kube-controller-manager | kube-scheduler | kubeadm)
      build "$name" controllers "k8s.io/kubernetes/cmd/$name" "$kube_flags" ;;
    *) say "build.sh does not know $name"; exit 1 ;;
  esac
done
echo "$out"
