#!/usr/bin/env bash
# Prints the linker's flags for the kubectl of the module in this folder. Without
# them kubectl says that its version is v0.0.0.
set -euo pipefail
version=$(sed -nE 's/^require k8s\.io\/kubernetes (v[0-9.]+)$/\1/p' go.mod)
minor=${version#v1.}
v=k8s.io/component-base/version
echo "-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
