# shellcheck shell=bash disable=SC2154
# Starts a real cluster without nodes' work for run.sh, which sources this file:
# etcd, kube-apiserver, controllers and scheduler, and kwok as the kubelet of two
# nodes. $work is a folder for its files, $servers and $tools have the binaries, and
# $charts is this folder.
# Every process that is started is ended by end_processes.

processes=()

# Starts a process with its log in $work: name, command.
start() {
  local name=$1
  shift
  "$@" > "$work/$name.log" 2>&1 &
  processes+=("$!")
}

# Nothing here is worth an orderly end, for which some would take a minute.
end_processes() {
  local pid
  for pid in "${processes[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for pid in "${processes[@]}"; do wait "$pid" 2>/dev/null || true; done
  processes=()
}

# Ends the process that was started last.
end_last() {
  local pid=${processes[-1]}
  unset 'processes[-1]'
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

# Sets $port to a port of loopback on which nobody listens. It lies below the
# range from which Linux takes local ports, and below the ports of tests/harness, so
# that a suite may run beside.
given=" "
free_port() {
  local attempt
  for attempt in {1..1000}; do
    port=$((5000 + RANDOM % 7000))
    case $given in *" $port "*) continue ;; esac
    if ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      given+="$port "
      return
    fi
  done
  fail "no free port after $attempt attempts"
}

# Waits until a command succeeds: what for, seconds, command.
eventually() {
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

authority() { # file, common name
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 \
    -subj "/CN=$2" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$work/$1.key" -out "$work/$1.crt" 2>/dev/null
}

issue() { # file, authority, subject, extensions
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "$3" \
    -keyout "$work/$1.key" -out "$work/request" 2>/dev/null
  openssl x509 -req -in "$work/request" -days 2 -sha256 -CA "$work/$2.crt" -CAkey "$work/$2.key" \
    -set_serial "0x$(openssl rand -hex 16)" -extfile <(printf '%b' "$4") -out "$work/$1.crt" 2>/dev/null
}

make_certificates() {
  authority cluster-ca kubernetes
  authority front-proxy-ca front-proxy
  issue serving cluster-ca /CN=localhost "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
  issue admin cluster-ca /O=system:masters/CN=admin "extendedKeyUsage=clientAuth\n"
  issue dora cluster-ca /O=developers/CN=dora "extendedKeyUsage=clientAuth\n"
  issue proxy front-proxy-ca /CN=front-proxy-client "extendedKeyUsage=clientAuth\n"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/accounts.key" 2>/dev/null
  openssl pkey -in "$work/accounts.key" -pubout -out "$work/accounts.pub"
}

# Writes a kubeconfig: file, server, lines of the user.
kubeconfig() {
  cat > "$1" <<TEXT
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "$2", certificate-authority: $work/cluster-ca.crt}}]
users: [{name: u, user: {$3}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
TEXT
}

start_api_server() {
  local etcd peer
  free_port; etcd=http://127.0.0.1:$port
  free_port; peer=http://127.0.0.1:$port
  start etcd "$servers/etcd" --data-dir "$work/etcd" --listen-client-urls "$etcd" \
    --advertise-client-urls "$etcd" --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
    --initial-cluster "default=$peer" --log-level warn --unsafe-no-fsync
  free_port
  api_server=https://127.0.0.1:$port
  start kube-apiserver "$servers/kube-apiserver" --etcd-servers "$etcd" --bind-address 127.0.0.1 \
    --secure-port "$port" --service-cluster-ip-range 10.96.0.0/16 --endpoint-reconciler-type none \
    --cert-dir "$work/apiserver" --tls-cert-file "$work/serving.crt" --tls-private-key-file "$work/serving.key" \
    --client-ca-file "$work/cluster-ca.crt" --authorization-mode RBAC \
    --requestheader-client-ca-file "$work/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-uid-headers X-Remote-Uid \
    --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$work/proxy.crt" --proxy-client-key-file "$work/proxy.key" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/accounts.pub" \
    --service-account-signing-key-file "$work/accounts.key" --profiling=false
  kubeconfig "$work/admin.kubeconfig" "$api_server" \
    "client-certificate: $work/admin.crt, client-key: $work/admin.key"
  export KUBECONFIG=$work/admin.kubeconfig
  eventually "kube-apiserver is ready" 60 kubectl get --raw /readyz
}

start_controllers() {
  start kube-controller-manager "$tools/kube-controller-manager" --kubeconfig "$KUBECONFIG" \
    --leader-elect=false --secure-port 0 --service-account-private-key-file "$work/accounts.key" \
    --root-ca-file "$work/cluster-ca.crt" --horizontal-pod-autoscaler-sync-period 1s \
    --controllers deployment-controller,replicaset-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,endpointslice-controller,horizontal-pod-autoscaler-controller,disruption-controller,garbage-collector-controller,namespace-controller
  start kube-scheduler "$tools/kube-scheduler" --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port 0
  free_port
  start kwok env HOME="$work" "$servers/kwok" --kubeconfig "$KUBECONFIG" --config "$charts/kubelet.yaml" \
    --manage-all-nodes --node-lease-duration-seconds 0 \
    --node-ip 127.0.0.1 --server-address "127.0.0.1:$port" \
    --tls-cert-file "$work/serving.crt" --tls-private-key-file "$work/serving.key"
  local node
  for node in node-1 node-2; do
    kubectl create -f - > /dev/null <<TEXT
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$node", "labels": {"kubernetes.io/hostname": "$node", "kubernetes.io/os": "linux"}}}
TEXT
  done
  eventually "both nodes are ready" 60 kubectl wait node --all --for condition=Ready --timeout 1s
  # The API server put it there, and no controller of nodes runs that would take it
  # away.
  kubectl taint node --all node.kubernetes.io/not-ready- > /dev/null
}
