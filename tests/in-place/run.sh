#!/usr/bin/env bash
# Tries docs/deployment.md, "In place of kube-apiserver": runs its commands as they
# are written on a control-plane node that the real kubeadm made, and back again. Real
# clients are connected all the while and count what they see: client-go's informers,
# readers and a writer, kubectl, kube-controller-manager and kube-scheduler.
#
# There is no container runtime: node.sh plays kubelet. It does so in namespaces, so
# that ports and paths are those of a real node and nothing is left on this machine.
# APIFRONT_TEST_BINARY names an apifront in place of the one that cargo builds.
# HISTORY and BRIDGE are those of examples/in-place/in-place.sh. GRACE (5) is how many
# seconds a Pod has to end; kubelet gives it 30, and kube-apiserver takes them all.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

build_everything() {
  local program
  for program in openssl curl nft ip ss unshare mount; do
    command -v "$program" > /dev/null || fail "$program is needed"
  done
  servers=$("$root/tests/kubernetes/build.sh" | tail -n 1)
  tools=$("$root/tests/charts/build.sh" kubeadm kube-controller-manager kube-scheduler | tail -n 1)
  traffic=$("$root/tests/build-program.sh" traffic | tail -n 1)
  apifront=${APIFRONT_TEST_BINARY:-}
  if [ -z "$apifront" ]; then
    (cd "$root" && cargo build --quiet)
    apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
  fi
  [ -x "$apifront" ] || fail "$apifront is no program"
  export servers tools traffic apifront
}

# This script runs itself once more in namespaces of its own. As another user than
# root it is root only there.
if [ "${1:-}" != inside ]; then
  build_everything
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(--user --map-root-user)
  exec unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc "$0" inside
fi

# shellcheck source=tests/in-place/node.sh
. "$here/node.sh"
# shellcheck source=tests/in-place/document.sh
. "$here/document.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-in-place.XXXXXX")
manifests=/etc/kubernetes/manifests
default_grace=${GRACE:-5}
processes=()
SECONDS=0

checked() { printf '%3d s  %s\n' "$SECONDS" "$*"; }
finish() {
  local code=$? pid
  [ "${finished:-}" = yes ] || [ "$code" != 0 ] || code=1
  for pid in "${processes[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  if [ "$code" = 0 ]; then
    umount "$work/layers" -l 2>/dev/null || true
    rm -rf "$work"
  else
    rm -rf "$work/etc" && cp -r /etc/kubernetes/manifests /etc/apifront "$work" 2>/dev/null || true
    echo "the logs are in $work" >&2
  fi
}
trap finish EXIT

start() { # name, command
  local name=$1
  shift
  "$@" > "$work/$name.log" 2> "$work/$name.err" &
  processes+=("$!")
}

eventually() { # what, seconds, command
  local what=$1 deadline=$((SECONDS + $2))
  shift 2
  until "$@" > "$work/eventually.log" 2>&1; do
    if ((SECONDS >= deadline)); then
      cat "$work/eventually.log" >&2
      fail "not within its time: $what"
    fi
    sleep 0.1
  done
}

same() { [ "$2" = "$3" ] || fail "$1: $(diff <(echo "$2") <(echo "$3"))"; }

# --- The node as kubeadm leaves it

make_node() {
  local phase
  own_folders
  own_network
  PATH=$servers:$tools:$PATH
  ln -s "$apifront" /usr/local/bin/apifront
  mkdir -p /etc/kubernetes
  cat > /etc/kubernetes/audit-policy.yaml <<'TEXT'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [list, watch]}
- {level: None}
TEXT
  for phase in "certs all" "kubeconfig all" "etcd local" "control-plane all"; do
    # shellcheck disable=SC2086 # A phase is two words.
    kubeadm init phase $phase --config "$here/kubeadm.yaml" >> "$work/kubeadm.log" 2>&1 ||
      fail "kubeadm init phase $phase: $(tail -n 3 "$work/kubeadm.log")"
  done
  touch "$work/restarts"
  start kubelet kubelet "$manifests"
  eventually "kube-apiserver is ready" 90 kubectl --kubeconfig /etc/kubernetes/super-admin.conf get --raw /readyz
  kubectl --kubeconfig /etc/kubernetes/super-admin.conf create clusterrolebinding kubeadm:cluster-admins \
    --clusterrole cluster-admin --group kubeadm:cluster-admins > /dev/null
  export KUBECONFIG=/etc/kubernetes/admin.conf
  eventually "the controllers work" 60 kubectl -n default get serviceaccount default
  eventually "the scheduler leads" 60 kubectl -n kube-system get lease kube-scheduler
  eventually "the Service kubernetes has endpoints" 30 endpoints_are 192.0.2.10:6443
  : > "$work/restarts"
  checked "the node of kubeadm $(kubeadm version -o short) works: etcd, kube-apiserver, kube-controller-manager, kube-scheduler"
}

endpoints_are() {
  [ "$(kubectl -n default get endpointslices kubernetes \
    -o 'jsonpath={.endpoints[*].addresses[*]}:{.ports[*].port}')" = "$1" ]
}

# --- Its clients

start_clients() {
  mkfifo "$work/commands"
  exec 9<> "$work/commands"
  "$traffic" -kubeconfig "$KUBECONFIG" -informers 20 -readers 4 -newcomers 2 \
    < "$work/commands" > "$work/traffic.log" 2> "$work/traffic.err" &
  processes+=("$!")
  eventually "the informers have synced" 60 grep -q '^synced' "$work/traffic.log"
  start kubectl-watch watch_with_kubectl
  start kubectl-calls call_kubectl
}

# `kubectl get --watch`, again when it ends.
watch_with_kubectl() {
  local code
  while :; do
    code=0
    kubectl -n traffic get configmaps --watch-only > /dev/null || code=$?
    echo "ended $code"
  done
}

# `kubectl apply` and `kubectl get`, one after the other.
call_kubectl() {
  local turn applied=none
  for ((turn = 0; ; turn++)); do
    if kubectl apply -f - <<TEXT
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "default"}, "data": {"turn": "$turn"}}
TEXT
    then applied=$turn; else echo "failed apply"; fi
    if [ "$(kubectl -n default get configmap applied -o 'jsonpath={.data.turn}')" = "$applied" ]; then
      echo "read $turn"
    else
      echo "failed get"
    fi
    sleep 0.2
  done
}

report() {
  echo "report $1" >&9
  eventually "the clients report" 20 grep -q "^reported $1" "$work/traffic.log"
}

count() { grep -c "$1" "$work/$2.log" || true; }

# --- What the document says

# The probes of a manifest, asked as kubelet would.
probes_pass() {
  local file=$1 paths host port path
  host=$(sed -nE 's/^ +host: //p' "$file" | head -n 1)
  port=$(sed -nE 's/^ +- containerPort: |^ +containerPort: //p' "$file" | head -n 1)
  mapfile -t paths < <(sed -nE 's/^ +path: (\/(livez|readyz))$/\1/p' "$file" | sort -u)
  [ "${#paths[@]}" = 2 ] || fail "$file has other probes than /livez and /readyz"
  for path in "${paths[@]}"; do
    eventually "$path of $file" 20 curl -fsSk "https://$host:$port$path"
  done
}

who_answers() {
  curl -sk --cert <(client_data certificate) --key <(client_data key) -o /dev/null -D - \
    -H 'X-Apifront-Debug: cache' "https://192.0.2.10:6443/api/v1/namespaces/traffic/configmaps" |
    tr -d '\r' | sed -nE 's/^x-apifront-cache: ([a-z]+).*/\1/pI'
}
client_data() { sed -nE "s/^ +client-$1-data: //p" "$KUBECONFIG" | base64 -d; }
memory_answers() { [ "$(who_answers)" = hit ]; }

check_installed() {
  local manifest
  for manifest in apifront kube-apiserver-6444; do probes_pass "$manifests/$manifest.yaml"; done
  checked "the probes of both static Pods pass"
  eventually "an answer of apifront from memory at port 6443" 20 memory_answers
  same "the caller" kubernetes-admin "$(kubectl auth whoami -o 'jsonpath={.status.userInfo.username}')"
  endpoints_are 192.0.2.10:6443 || fail "the Service kubernetes has other endpoints: $(kubectl get endpointslices)"
  kubectl create token default > "$work/token"
  same "the caller with a token" system:serviceaccount:default:default \
    "$(kubectl --kubeconfig /dev/null --server https://192.0.2.10:6443 --certificate-authority /etc/kubernetes/pki/ca.crt \
      --token "$(cat "$work/token")" auth whoami -o 'jsonpath={.status.userInfo.username}')"
  same "the code of a read without a name" 403 \
    "$(curl -sk -o /dev/null -w '%{http_code}' https://192.0.2.10:6443/api/v1/secrets)"
  checked "certificates, tokens and callers without a name are known at port 6443; the Service kubernetes has that port"
}

# Which users listed what at the API servers since the last call of this function.
# The audit log is in the logs of the Pods.
declare -A read_lines=()
who_listed() {
  local log upto
  for log in "$work"/kube-apiserver*.log; do
    upto=$(wc -l < "$log")
    sed -n "$((${read_lines[$log]:-0} + 1)),${upto}p" "$log"
    read_lines[$log]=$upto
  done > "$work/audited"
  grep -E '"verb":"list"|sendInitialEvents=true' "$work/audited" |
    sed -nE 's/.*"user":\{"username":"([^"]*)".*"objectRef":\{"resource":"([^"]*)".*/\1 \2/p' |
    sort | uniq -c | sort -rn > "$work/listed" || true
}

# What the clients saw since the report before: a heading, a name.
show() {
  report "$1"
  checked "$2; what the clients saw of it:"
  grep "^$1 " "$work/traffic.log" | sed 's/^/       /'
  who_listed
  # The readers list, and so does apifront.
  grep -vE ' (system:apiserver|apifront) | kubernetes-admin configmaps$' "$work/listed" > "$work/others" || true
  echo "       lists of other clients: $(awk '{ n += $1 } END { print n + 0 }' "$work/others")"
  head -n 5 "$work/others"
}

# A figure of the sums: the clients, its name.
figure() { sed -nE "s/^(total )?$1( .*)? $2=([^ ]*).*/\\3/p" "$work/traffic.log" | tail -n 1; }

# What must hold in the end. Requests may be repeated by client-go: a kube-apiserver
# that ends answers some with 503 and Retry-After.
check_clients() {
  same "lists and watch lists of the informers" "0 0" "$(figure informers lists) $(figure informers watch_lists)"
  same "events lost, repeated and out of order" "0 0 0" "$(figure events lost) $(figure events repeated) $(figure events disordered)"
  same "the informers know the last write" true "$(figure events told_of_last)"
  same "failed reads on connections that were open, and on new ones" "0 0" "$(figure readers failed) $(figure newcomers failed)"
  same "reads older than a write" "0 0" "$(figure readers stale) $(figure newcomers stale)"
  same "failed writes" 0 "$(figure writer failed)"
  same "failed calls of kubectl" 0 "$(count '^failed' kubectl-calls)"
  ! grep -v '^kube-apiserver.* was killed' "$work/restarts" || fail "Pods were restarted: $(cat "$work/restarts")"
  checked "no request failed, no informer listed anew or lost an event, no controller was restarted"
}

# An install that is interrupted before the port changes its owner is undone.
interrupted_install() {
  local before
  before=$(cd "$manifests" && sha256sum ./*)
  section "Install it in place" | grep -v in-place.sh | grep -v doctor > "$work/section"
  (cd "$root" && bash -euo pipefail "$work/section") > "$work/section.log" 2>&1 || fail "$(cat "$work/section.log")"
  HISTORY=600 "$root/examples/in-place/in-place.sh" install > "$work/interrupted.log" 2>&1 &
  local pid=$!
  eventually "apifront is ready at port 6445" 60 grep -q 'ready at port 6445' "$work/interrupted.log"
  kill -TERM "$pid"
  wait "$pid" 2>/dev/null || true
  "$root/examples/in-place/in-place.sh" rollback > "$work/interrupted.log" 2>&1 || fail "$(cat "$work/interrupted.log")"
  same "the manifests after an interrupted install and a rollback" "$before" "$(cd "$manifests" && sha256sum ./*)"
  ! nft list table inet apifront_in_place > /dev/null 2>&1 || fail "the redirection is still there"
  checked "an install that was interrupted is undone"
}

make_node
start_clients
sleep 3
show before "clients are connected"

if [ "${BASELINE:-}" = yes ]; then
  # For comparison: an ordinary restart of kube-apiserver by a change of its manifest.
  sed -i 's/--secure-port=6443/&\n    - --profiling=false/' "$manifests/kube-apiserver.yaml"
  sleep "$((default_grace + 5))"
  eventually "kube-apiserver is ready again" 60 kubectl get --raw /readyz
  sleep 5
  show restart "kube-apiserver was restarted in the ordinary way"
else
  interrupted_install
  run_section "Install it in place" 5
  # Until the earlier kube-apiserver has ended.
  sleep "$((default_grace + 2))"
  show install "installed"
  check_installed
  report installed
  run_section "Roll back" 1
  sleep "$((default_grace + 2))"
  show rollback "rolled back"
  probes_pass "$manifests/kube-apiserver.yaml"
  [ -z "$(who_answers)" ] || fail "apifront answers after the rollback"
fi
echo finish >&9
eventually "the clients have finished" 150 grep -q '^events' "$work/traffic.log"
grep '^events' "$work/traffic.log" | sed 's/^/       /'
echo "       kubectl: $(count '^read' kubectl-calls) times apply and get, $(count '^failed' kubectl-calls) failed; kubectl get --watch ended $(count '^ended' kubectl-watch) times"
sed -nE 's/.*(connection (refused|reset)|EOF|GOAWAY|ServiceUnavailable).*/       kubectl: \1/p' "$work/kubectl-calls.err" "$work/kubectl-watch.err" | sort | uniq -c
if [ "${BASELINE:-}" != yes ] && [ "${BRIDGE:-yes}" = yes ]; then check_clients; fi
finished=yes
