#!/usr/bin/env bash
# Runs the commands of docs/deployment.md as they are written, for a managed cluster and
# for k3s, and asks the apifront that they configure; and those of docs/in-place.md about
# the unit of systemd. The data of the real kube-apiserver is in kine with sqlite, as k3s
# has it, and its files have k3s's names. It does so in namespaces, so that ports and
# paths are those of the documents and nothing is left.
# APIFRONT_TEST_BINARY names an apifront in place of the one that cargo builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

if [ "${1:-}" != inside ]; then
  for program in openssl curl nft ip unshare mount systemd-analyze; do
    command -v "$program" > /dev/null || fail "$program is needed"
  done
  servers=$("$root/tests/kubernetes/build.sh" | tail -n 1)
  tools=$("$root/tests/charts/build.sh" kube-controller-manager | tail -n 1)
  kine=$("$root/tests/build-program.sh" kine | tail -n 1)
  apifront=${APIFRONT_TEST_BINARY:-}
  if [ -z "$apifront" ]; then
    (cd "$root" && cargo build --quiet)
    apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
  fi
  export servers tools kine apifront
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(--user --map-root-user)
  exec unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc "$0" inside
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-deployment.XXXXXX")
# shellcheck disable=SC2034 # node.sh uses it.
default_grace=5
# shellcheck source=tests/charts/cluster.sh
. "$root/tests/charts/cluster.sh"
# shellcheck source=tests/in-place/node.sh
. "$root/tests/in-place/node.sh"
# shellcheck source=tests/in-place/document.sh
. "$root/tests/in-place/document.sh"
SECONDS=0
checked() { printf '%3d s  %s\n' "$SECONDS" "$*"; }
finish() {
  local code=$?
  end_processes
  if [ "$code" = 0 ]; then
    umount -l "$work/layers" 2>/dev/null || true
    rm -rf "$work"
  else
    echo "the logs are in $work" >&2
  fi
}
trap finish EXIT

# The certificates, by the names that k3s gives them.
make_k3s_certificates() {
  local file
  tls=/var/lib/rancher/k3s/server/tls
  mkdir -p "$tls"
  make_certificates
  authority client-ca k3s-client-ca
  issue admin client-ca /O=system:masters/CN=system:admin "extendedKeyUsage=clientAuth\n"
  issue auth-proxy front-proxy-ca /CN=system:auth-proxy "extendedKeyUsage=clientAuth\n"
  cp "$work/cluster-ca.crt" "$tls/server-ca.crt"
  cp "$work/client-ca.crt" "$tls/client-ca.crt"
  cp "$work/front-proxy-ca.crt" "$tls/request-header-ca.crt"
  for file in crt key; do
    cp "$work/auth-proxy.$file" "$tls/client-auth-proxy.$file"
    cp "$work/serving.$file" "$tls/serving-kube-apiserver.$file"
  done
}

start_k3s_servers() {
  mkdir "$work/db"
  (cd "$work/db" && exec "$kine" 127.0.0.1:2380 127.0.0.1:2379 --listen-address=127.0.0.1:2379 \
    --metrics-bind-address=0) > "$work/kine.log" 2>&1 &
  processes+=("$!")
  start kube-apiserver "$servers/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --bind-address 127.0.0.1 \
    --advertise-address 192.0.2.10 \
    --secure-port 6443 --service-cluster-ip-range 10.43.0.0/16 --endpoint-reconciler-type none \
    --cert-dir "$work/apiserver" --tls-cert-file "$tls/serving-kube-apiserver.crt" \
    --tls-private-key-file "$tls/serving-kube-apiserver.key" --client-ca-file "$tls/client-ca.crt" \
    --authorization-mode Node,RBAC --anonymous-auth=false --profiling=false \
    --requestheader-client-ca-file "$tls/request-header-ca.crt" --requestheader-allowed-names system:auth-proxy \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$tls/client-auth-proxy.crt" --proxy-client-key-file "$tls/client-auth-proxy.key" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/accounts.pub" \
    --service-account-signing-key-file "$work/accounts.key"
  kubeconfig "$work/admin.kubeconfig" https://127.0.0.1:6443 \
    "client-certificate: $work/admin.crt, client-key: $work/admin.key"
  export KUBECONFIG=$work/admin.kubeconfig
  eventually "kube-apiserver is ready" 60 kubectl get --raw /readyz
  # It gives the Secret its token.
  start kube-controller-manager "$tools/kube-controller-manager" --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --secure-port 0 --service-account-private-key-file "$work/accounts.key" --root-ca-file "$work/cluster-ca.crt" \
    --controllers serviceaccount-token-controller,serviceaccount-controller,root-ca-certificate-publisher-controller
  eventually "the controllers work" 60 kubectl -n default get serviceaccount default
}

# The document reads the token right after it asks for it; so it must be there.
apply_token() {
  kubectl apply -f "$root/examples/cluster/token.yaml" > /dev/null
  eventually "the Secret has its token" 30 has_token
}
has_token() { [ -n "$(kubectl -n apifront get secret apifront-token -o 'jsonpath={.data.token}')" ]; }

ask() { # authority, token
  curl -fsS --cacert "$1" -H "Authorization: Bearer $2" -o /dev/null -D - -H 'X-Apifront-Debug: cache' \
    https://localhost:7443/api/v1/namespaces/default/configmaps | grep -qi '^x-apifront-cache: hit'
}

# Starts what the document configured, and asks it: the authority of its certificate.
check_answers() {
  local name
  start apifront apifront --config /etc/apifront/front.yaml
  eventually "apifront is ready" 30 curl -fsS --cacert "$1" https://localhost:7443/readyz
  token=$(kubectl -n default create token default)
  eventually "an answer from memory" 20 ask "$1" "$token"
  name=$(kubectl --kubeconfig /dev/null --server https://localhost:7443 --certificate-authority "$1" --token "$token" \
    auth whoami -o 'jsonpath={.status.userInfo.username}')
  [ "$name" = system:serviceaccount:default:default ] || fail "the caller is $name"
  if kubectl --kubeconfig /dev/null --server https://localhost:7443 --certificate-authority "$1" --token "$token" \
    -n default delete configmap kube-root-ca.crt > "$work/denied" 2>&1; then
    fail "a caller may delete what they may not"
  fi
  grep -q 'User "system:serviceaccount:default:default" cannot delete' "$work/denied" || fail "$(cat "$work/denied")"
}

own_folders
own_network
PATH=$servers:$tools:$PATH
ln -s "$apifront" /usr/local/bin/apifront
make_k3s_certificates
start_k3s_servers
kubectl -n default create role reader --verb get,list --resource configmaps > /dev/null
kubectl -n default create rolebinding reader --role reader --serviceaccount default:default > /dev/null
apply_token
checked "a real kube-apiserver on kine with sqlite is there, with the files of k3s"

run_section "Before a managed cluster" 8
check_answers /etc/apifront/tls.crt
end_last
checked "managed: as a service account that impersonates, apifront answers from memory, and upstream as the caller"

rm -r /etc/apifront
run_section "On a server of k3s" 5
check_answers "$tls/server-ca.crt"
[ -n "$(kubectl --server https://127.0.0.1:7443 get configmaps -A -o name)" ] || fail "no list as the administrator"
end_last
checked "k3s: tokens and client certificates are known at port 7443"

run_section "As a unit of systemd" 2
command=$(sed -n 's/^ExecStart=//p' "$root/examples/in-place/apifront.service")
[ "$command" = "$(command_of "$root/examples/in-place/apifront.yaml" | xargs)" ] ||
  fail "the unit starts something else than the static Pod: $command"
checked "systemd-analyze verify takes the unit, which starts what the static Pod does"
