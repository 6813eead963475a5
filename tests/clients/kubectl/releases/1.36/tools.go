//go:build tools

// Package kubectl pins the kubectl that build.sh builds.
package kubectl

import _ "k8s.io/kubernetes/cmd/kubectl"
