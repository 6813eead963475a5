// The modules whose definitions of custom resources run.sh applies: files of them,
// no code. So `go mod tidy` would empty this file.
module apifront.dev/tests/charts/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
