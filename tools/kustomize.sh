#!/usr/bin/env bash
# Writes deploy/kustomize/base and deploy/kustomize/components anew from the chart,
# whose default values they are. With `--check` it writes nothing, and fails if they are
# not what it would write.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/deploy/kustomize
parts=(base components/impersonate-anybody components/monitoring)
helm=$("$root/tests/charts/build.sh" helm | tail -n 1)/helm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Renders some templates of the chart into one file each: folder, helm's
# arguments, templates. What only Helm keeps true is left out: its labels, and the
# checksum of fields. So are namespaces: kustomize sets them, in subjects of bindings
# too, and patches need not name them.
render() {
  local folder=$1 arguments=$2 template
  shift 2
  mkdir -p "$folder"
  for template in "$@"; do
    # shellcheck disable=SC2086 # These are several arguments.
    "$helm" template apifront "$root/charts/apifront" --namespace apifront $arguments \
      --show-only "templates/$template.yaml" |
      sed -E -e '/^# Source: /d' -e '/^ +(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): /d' |
      sed -e '/# Covers the fields/,/apifront.dev\/restart-fields/d' |
      sed -e '1{/^---$/d}' -e '/^  namespace: apifront$/d' > "$folder/$template.yaml"
  done
}

# Writes a kustomization: folder, what it is for, its kind, more lines.
kustomization() {
  local folder=$1 about=$2 kind=$3 more=$4 version=v1beta1 file
  [ "$kind" = Kustomization ] || version=v1alpha1
  {
    echo "# Written by tools/kustomize.sh from charts/apifront: $about"
    printf 'apiVersion: kustomize.config.k8s.io/%s\nkind: %s\n%sresources:\n' "$version" "$kind" "$more"
    for file in "$folder"/*.yaml; do
      [ "${file##*/}" = kustomization.yaml ] || echo "- ${file##*/}"
    done
  } > "$work/kustomization"
  mv "$work/kustomization" "$folder/kustomization.yaml"
}

write() {
  local to=$1
  # The chart asks whom apifront may impersonate. The base leaves that to overlays: the
  # answer given here is in no file but that of the component.
  local anybody=rbac.impersonate.allowAnybody=true
  render "$to/base" "--set $anybody" \
    configmap deployment networkpolicy poddisruptionbudget rbac service serviceaccount
  kustomization "$to/base" "its default values. It may impersonate nobody." Kustomization $'namespace: apifront\n'
  render "$to/components/impersonate-anybody" "--set $anybody" rbac-impersonate
  kustomization "$to/components/impersonate-anybody" "rbac.impersonate.allowAnybody." Component ""
  render "$to/components/monitoring" \
    "--set $anybody,metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true" \
    dashboard prometheusrule servicemonitor
  kustomization "$to/components/monitoring" "what Prometheus' operator and Grafana read." Component ""
}

write "$work/new"
case ${1:-} in
  --check)
    for part in "${parts[@]}"; do
      diff -r "$out/$part" "$work/new/$part" || {
        echo "deploy/kustomize/$part is not what the chart says: run tools/kustomize.sh" >&2
        exit 1
      }
    done
    ;;
  "")
    for part in "${parts[@]}"; do
      mkdir -p "$out/${part%/*}"
      rm -rf "${out:?}/$part"
      mv "$work/new/$part" "$out/$part"
    done
    ;;
  *)
    echo "usage: tools/kustomize.sh [--check]" >&2
    exit 2
    ;;
esac
