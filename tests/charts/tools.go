//go:build tools

// Package charts pins the versions of helm and kustomize that build.sh builds.
package charts

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
