#!/usr/bin/env bash
# Tries docs/in-place.md: runs its commands as they are written on a control-plane node
# that the real kubeadm made, and back again. Real clients are connected all the while
# and count what they see: client-go's informers, readers and a writer, kubectl,
# kube-controller-manager and kube-scheduler.
#
# There is no container runtime and no systemd: node.sh plays kubelet, container.sh the
# containers, systemctl.sh the timer. They do so in namespaces, so that ports and paths
# are those of a real node and nothing is left on this machine.
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
  for program in openssl curl nft ip ss unshare mount setpriv useradd runuser pgrep strip systemd-analyze; do
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

# This script runs itself once more in namespaces of its own.
if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail "root is needed: the node has users of its own"
  build_everything
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside
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
  install "$here/systemctl.sh" /usr/local/bin/systemctl
  mkdir "$work/units"
  export PLAYED=$work/units
  "$root/tools/rootfs.sh" "$apifront" "$work/image"
  # The cache of builds may be closed to other users than root.
  install "$work/image/usr/local/bin/apifront" /usr/local/bin/apifront
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

# The process of the static Pod runs as a user of its own, sees what it needs and nothing
# else, and that user can read no key of the cluster.
check_confined() {
  local pid user group file keys
  pid=$(pgrep -x apifront) || fail "apifront does not run"
  user=$(id -u apifront)
  group=$(id -g apifront)
  [ "$user" != 0 ] || fail "apifront is root"
  same "the rights of the process $pid" "Uid $user $user $user $user
Gid $group $group $group $group
Groups
CapInh 0000000000000000
CapPrm 0000000000000000
CapEff 0000000000000000
CapAmb 0000000000000000
NoNewPrivs 1" "$(sed -nE 's/^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):/\1 /p' "/proc/$pid/status" | tr -s '\t ' ' ' | sed 's/ $//')"
  same "what it may write" "/ ro
/etc/apifront ro
/var/lib/apifront rw" "$(awk '$5 != "/proc" { split($6, options, ","); print $5, options[1] }' "/proc/$pid/mountinfo" | sort)"
  same "the files that it sees besides those of the image and its own" "./etc/apifront/front.yaml
./etc/apifront/pki/apiserver.crt
./etc/apifront/pki/apiserver.key
./etc/apifront/pki/ca.crt
./etc/apifront/pki/front-proxy-ca.crt
./etc/apifront/pki/front-proxy-client.crt
./etc/apifront/pki/front-proxy-client.key
./etc/apifront/pki/upstream.kubeconfig" "$(comm -13 <(cd "$work/image" && find . ! -type d | sort) \
    <(cd "/proc/$pid/root" && find . -path ./proc -prune -o -path ./var/lib/apifront -prune -o ! -type d -print | sort))"
  same "the files that front.yaml names" "$(cd /etc/apifront/pki && printf '%s\n' "$PWD"/*)" \
    "$(sed -nE 's/.* (\/etc\/[^ ]*)$/\1/p' /etc/apifront/front.yaml | sort)"

  as_apifront test -r /etc/apifront/pki/apiserver.key || fail "the user apifront cannot read its own key"
  ! as_apifront test -w /etc/apifront/pki || fail "the user apifront may write its folder of keys"
  mapfile -t keys < <(find /etc/kubernetes \( -name '*.key' -o -name '*.conf' -o -name '*.kubeconfig' \) ! -type d)
  for file in pki/{ca,sa,front-proxy-ca,apiserver,apiserver-etcd-client,apiserver-kubelet-client,etcd/ca,etcd/server}.key admin.conf; do
    printf '%s\n' "${keys[@]}" | grep -qx "/etc/kubernetes/$file" || fail "kubeadm made no $file"
  done
  for file in "${keys[@]}"; do
    ! as_apifront test -r "$file" || fail "the user apifront can read $file"
  done
  checked "apifront runs as user $user without capabilities, sees 8 files, and can read none of the ${#keys[@]} keys and kubeconfigs of the node"
}
as_apifront() {
  setpriv --reuid apifront --regid apifront --clear-groups --inh-caps=-all --no-new-privs "$@"
}

# kubeadm renews the certificates, and apifront serves with them, without a restart.
check_renewal() {
  local pid before name
  pid=$(pgrep -x apifront)
  before=$(serial)
  same "the certificate at port 6443" "$(serial_in /etc/kubernetes/pki/apiserver.crt)" "$before"
  renew apiserver
  [ "$(serial_in /etc/kubernetes/pki/apiserver.crt)" != "$before" ] || fail "kubeadm renewed nothing"
  eventually "apifront serves with the renewed certificate" 60 serves_renewed
  renew front-proxy-client
  run_section "What the process may read" 1
  for name in {apiserver,front-proxy-client}.{crt,key}; do
    cmp "/etc/kubernetes/pki/$name" "/etc/apifront/pki/$name" || fail "the copy of $name is an old one"
  done
  same "the process after the renewal" "$pid" "$(pgrep -x apifront)"
  eventually "a name that the API server takes from the renewed front proxy" 20 kubectl auth whoami
  check_confined
  checked "after kubeadm certs renew, the same process serves with the new certificate"
}
serial() {
  openssl s_client -connect 192.0.2.10:6443 < /dev/null 2> /dev/null | openssl x509 -noout -serial
}
serial_in() { openssl x509 -noout -serial -in "$1"; }
serves_renewed() { [ "$(serial)" = "$(serial_in /etc/kubernetes/pki/apiserver.crt)" ]; }
renew() {
  kubeadm certs renew "$1" --config "$here/kubeadm.yaml" >> "$work/kubeadm.log" 2>&1 ||
    fail "kubeadm certs renew $1: $(tail -n 3 "$work/kubeadm.log")"
}

# A certificate that is written before its key is not copied alone.
check_half_renewed() {
  cp -r /etc/kubernetes/pki "$work/half"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/half/apiserver.key" 2> /dev/null
  ! PKI=$work/half OUT=$work/half-copies "$root/examples/in-place/copy-files.sh" > "$work/half.log" 2>&1 ||
    fail "a certificate was copied with a foreign key"
  grep -q 'apiserver.key is not the key of apiserver.crt' "$work/half.log" || fail "$(cat "$work/half.log")"
  [ ! -e "$work/half-copies" ] || fail "something was copied"
  checked "files that are renewed by half are not copied"
}

check_units() {
  systemd-analyze verify /etc/systemd/system/apifront-files.{service,timer} > "$work/verify.log" 2>&1 ||
    fail "systemd-analyze verify: $(cat "$work/verify.log")"
  [ -e "$PLAYED/apifront-files.timer" ] || fail "the timer was not started"
  checked "systemd-analyze verify takes the service and the timer"
}

# The rollback leaves no key outside of kubeadm's folder, and no timer.
check_taken_back() {
  [ ! -e /etc/apifront/pki ] || fail "copies of keys are left: $(ls /etc/apifront/pki)"
  [ ! -e "$PLAYED/apifront-files.timer" ] || fail "the timer runs still"
  [ -z "$(find /etc/systemd/system /usr/local/sbin -name 'apifront-*')" ] || fail "units are left"
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
  check_taken_back
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
  check_confined
  check_units
  check_half_renewed
  check_renewal
  report installed
  run_section "Roll back" 1
  sleep "$((default_grace + 2))"
  show rollback "rolled back"
  probes_pass "$manifests/kube-apiserver.yaml"
  [ -z "$(who_answers)" ] || fail "apifront answers after the rollback"
  check_taken_back
fi
echo finish >&9
eventually "the clients have finished" 150 grep -q '^events' "$work/traffic.log"
grep '^events' "$work/traffic.log" | sed 's/^/       /'
echo "       kubectl: $(count '^read' kubectl-calls) times apply and get, $(count '^failed' kubectl-calls) failed; kubectl get --watch ended $(count '^ended' kubectl-watch) times"
sed -nE 's/.*(connection (refused|reset)|EOF|GOAWAY|ServiceUnavailable).*/       kubectl: \1/p' "$work/kubectl-calls.err" "$work/kubectl-watch.err" | sort | uniq -c
if [ "${BASELINE:-}" != yes ] && [ "${BRIDGE:-yes}" = yes ]; then check_clients; fi
finished=yes
