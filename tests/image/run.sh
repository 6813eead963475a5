#!/usr/bin/env bash
# Makes the image with tools/image.sh, and runs it: with a read-only root, as a user
# that is not root, without any capability, before a real kube-apiserver. A list is
# asked through it, and it is stopped as a container is. APIFRONT_TEST_BINARY names an
# apifront in place of the one that cargo builds; it may be stripped already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-image-test.XXXXXX")
image=localhost/apifront:test
# shellcheck source=tests/charts/cluster.sh
. "$root/tests/charts/cluster.sh"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
checked() { printf '%3d s  %s\n' "$SECONDS" "$*"; }

# Runs podman with a store of its own. crun refuses machines that have both versions of
# cgroups, runc takes them.
podman() {
  command podman --root "$work/store" --runroot "$work/run" --storage-driver vfs \
    --cgroup-manager cgroupfs --runtime runc --log-level error "$@"
}

finish() {
  local code=$?
  podman rm --force --time 0 apifront-test > /dev/null 2>&1 || true
  end_processes
  if [ "$code" = 0 ]; then
    podman rmi --force "$image" > /dev/null 2>&1 || true
    rm -rf "$work"
  else
    echo "the logs are in $work" >&2
  fi
}
trap finish EXIT

for program in buildah podman runc openssl curl; do
  command -v "$program" > /dev/null || fail "$program is needed"
done
servers=$("$root/tests/kubernetes/build.sh" | tail -n 1)
apifront=${APIFRONT_TEST_BINARY:-}
if [ -z "$apifront" ]; then
  (cd "$root" && cargo build --quiet)
  apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
fi
kubectl() { "$servers/kubectl" "$@"; }
SECONDS=0

"$root/tools/image.sh" "$apifront" "$image" "$work/image.tar"
podman load --quiet --input "$work/image.tar" > /dev/null
[ "$(podman image inspect "$image" --format '{{.Config.User}}')" = 65532:65532 ] || fail "the image has another user"
checked "the image is made and loaded; its files take $(podman image inspect "$image" --format '{{.Size}}' | awk '{ printf "%.0f MB", $1 / 1e6 }')"

make_certificates
start_api_server
kubectl apply -f "$root/examples/cluster/rbac.yaml" > /dev/null
kubectl -n default create configmap listed --from-literal a=b > /dev/null
checked "a real kube-apiserver is there"

# The files that the container reads: its user must be able to.
mkdir "$work/config"
cp "$work/cluster-ca.crt" "$work/serving.crt" "$work/serving.key" "$work/proxy.crt" "$work/proxy.key" "$work/config"
issue own cluster-ca /CN=apifront "extendedKeyUsage=clientAuth\n"
cp "$work/own.crt" "$work/own.key" "$work/config"
free_port
front=https://localhost:$port
cat > "$work/config/front.yaml" <<TEXT
apiVersion: apifront.dev/v1alpha1
kind: FrontConfiguration
serving: {bindAddress: 127.0.0.1, securePort: $port, tlsCertFile: /etc/apifront/serving.crt, tlsPrivateKeyFile: /etc/apifront/serving.key}
observability: {port: 0}
upstream: {servers: ["$api_server"], caFile: /etc/apifront/cluster-ca.crt, clientCertFile: /etc/apifront/own.crt, clientKeyFile: /etc/apifront/own.key}
authentication: {clientCAFile: /etc/apifront/cluster-ca.crt}
identity: {mode: RequestHeader, proxyClientCertFile: /etc/apifront/proxy.crt, proxyClientKeyFile: /etc/apifront/proxy.key}
TEXT
chmod 0755 "$work" "$work/config"
chmod 0644 "$work"/config/*

# Loopback is the machine's, so that the container reaches kube-apiserver there. The
# limits are given, since podman's defaults are above those of some machines.
start container podman run --name apifront-test --network host --read-only --read-only-tmpfs=false \
  --user 65532:65532 --cap-drop ALL --security-opt no-new-privileges \
  --ulimit nofile=4096:4096 --ulimit nproc=1000:1000 \
  --volume "$work/config:/etc/apifront:ro" "$image" --config /etc/apifront/front.yaml
eventually "apifront in the container is ready" 60 curl -fsS --cacert "$work/cluster-ca.crt" "$front/readyz"
checked "the container runs: read-only, as user 65532, without capabilities"

pid=$(podman inspect apifront-test --format '{{.State.Pid}}')
grep -qE '^Uid:\s+65532\s+65532' "/proc/$pid/status" || fail "the process has another user: $(grep Uid "/proc/$pid/status")"
grep -qE '^CapEff:\s+0+$' "/proc/$pid/status" || fail "the process has capabilities: $(grep CapEff "/proc/$pid/status")"
awk '$5 == "/" { exit $6 !~ /^ro/ }' "/proc/$pid/mountinfo" || fail "the root can be written"

kubeconfig "$work/through.kubeconfig" "$front" "client-certificate: $work/admin.crt, client-key: $work/admin.key"
from_memory() {
  curl -fsS --cacert "$work/cluster-ca.crt" --cert "$work/admin.crt" --key "$work/admin.key" -o /dev/null -D - \
    -H 'X-Apifront-Debug: cache' "$front/api/v1/namespaces/default/configmaps" | grep -qi '^x-apifront-cache: hit'
}
eventually "a list from memory" 20 from_memory
kubectl --kubeconfig "$work/through.kubeconfig" -n default get configmaps -o name | grep -qx configmap/listed ||
  fail "the list through the container lacks the object"
checked "kubectl lists through the container, and apifront answers from memory"

podman stop --time 20 apifront-test > /dev/null
[ "$(podman inspect apifront-test --format '{{.State.ExitCode}}')" = 0 ] || fail "the container did not end in order"
checked "podman stop ends it in order"
