#!/usr/bin/env bash
# Restarts three apifronts behind haproxy one by one, with the haproxy.cfg of
# examples/haproxy, under real clients: client-go's informers, a writer, and readers on
# open and on new connections. It fails if a request fails, an event is lost, or a
# replica or an informer lists anew.
#
#   run.sh [--informers 50] [--rounds 1] [--pause 2] [--cold]
#
# A round restarts each replica once; the pause is in seconds, after each restart.
# With --cold nothing is saved (cache.directory): each restart reads everything.
# APIFRONT_TEST_BINARY names an apifront in place of the one that cargo builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
informers=50 rounds=1 pause=2 cold=
while [ $# -gt 0 ]; do
  case $1 in
    --informers) informers=$2 ;;
    --rounds) rounds=$2 ;;
    --pause) pause=$2 ;;
    --cold) cold=yes; shift; continue ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-rolling.XXXXXX")
# shellcheck source=tests/charts/cluster.sh
. "$root/tests/charts/cluster.sh"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
checked() { printf '%3d s  %s\n' "$SECONDS" "$*"; }
same() { [ "$2" = "$3" ] || fail "$1: $2, and not $3"; }
finish() {
  local code=$?
  end_processes
  if [ "$code" = 0 ]; then rm -rf "$work"; else echo "the logs are in $work" >&2; fi
}
trap finish EXIT

for program in openssl curl haproxy; do
  command -v "$program" > /dev/null || fail "$program is needed"
done
servers=$("$root/tests/kubernetes/build.sh" | tail -n 1)
traffic=$("$root/tests/build-program.sh" traffic | tail -n 1)
apifront=${APIFRONT_TEST_BINARY:-}
if [ -z "$apifront" ]; then
  (cd "$root" && cargo build --quiet)
  apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
fi
kubectl() { "$servers/kubectl" "$@"; }
SECONDS=0

# --- Servers

ports=() pids=()

configure_replica() { # number
  free_port
  ports[$1]=$port
  cat > "$work/front-$1.yaml" <<TEXT
apiVersion: apifront.dev/v1alpha1
kind: FrontConfiguration
serving:
  bindAddress: 127.0.0.1
  securePort: $port
  tlsCertFile: $work/serving.crt
  tlsPrivateKeyFile: $work/serving.key
  shutdownDelayDuration: 5s
  maxConnectionsPerClient: 0
observability: {port: 0}
upstream: {kubeconfig: $work/own.kubeconfig}
authentication: {clientCAFile: $work/cluster-ca.crt}
identity: {mode: RequestHeader, proxyClientCertFile: $work/proxy.crt, proxyClientKeyFile: $work/proxy.key}
cache:
  preload: [configmaps]
TEXT
  if [ -z "$cold" ]; then echo "  directory: $work/stores-$1" >> "$work/front-$1.yaml"; fi
}

start_replica() { # number
  "$apifront" --config "$work/front-$1.yaml" >> "$work/apifront-$1.log" 2>&1 &
  pids[$1]=$!
  processes+=("$!")
}

# The state of a replica in haproxy's eyes, such as UP.
state_of() { curl -fsS "$statistics;csv" | awk -F, -v name="apifront-$1" '$1 == "apifront" && $2 == name { print $18 }'; }
connections_of() { curl -fsS "$statistics;csv" | awk -F, -v name="apifront-$1" '$1 == "apifront" && $2 == name { print $5 }'; }
is() { [ "$(state_of "$1")" = "$2" ]; }

start_haproxy() {
  local number
  free_port
  front=https://127.0.0.1:$port
  cp "$root/examples/haproxy/haproxy.cfg" "$work/haproxy.cfg"
  sed -i "s/^    bind :6443$/    bind 127.0.0.1:$port/" "$work/haproxy.cfg"
  for number in 1 2 3; do
    sed -i "s/10\.0\.0\.1$number:6443/127.0.0.1:${ports[$number]}/" "$work/haproxy.cfg"
  done
  ! grep -nE '6443$' "$work/haproxy.cfg" || fail "a port of haproxy.cfg was not replaced"
  free_port
  statistics=http://127.0.0.1:$port/stats
  printf '\nfrontend statistics\n    mode http\n    bind 127.0.0.1:%d\n    stats enable\n    stats uri /stats\n' "$port" >> "$work/haproxy.cfg"
  # The limit of files may be lower here than on a server.
  sed -i "s/maxconn 40000/maxconn $(($(ulimit -n) / 3))/" "$work/haproxy.cfg"
  start haproxy haproxy -db -f "$work/haproxy.cfg"
}

# How often replicas read all ConfigMaps from kube-apiserver, and how often they began
# with the saved ones.
filled() { cat "$work"/apifront-*.log | grep -c 'cache filled resource=configmaps' || true; }
resumed() { cat "$work"/apifront-*.log | grep -c 'resumed from the saved store resource=configmaps' || true; }

make_certificates
issue own cluster-ca /CN=apifront "extendedKeyUsage=clientAuth\n"
start_api_server
kubectl apply -f "$root/examples/cluster/rbac.yaml" > /dev/null
kubeconfig "$work/own.kubeconfig" "$api_server" "client-certificate: $work/own.crt, client-key: $work/own.key"
for number in 1 2 3; do
  configure_replica "$number"
  start_replica "$number"
done
start_haproxy
for number in 1 2 3; do eventually "haproxy sees replica $number" 30 is "$number" UP; done
checked "three replicas are behind haproxy, before a real kube-apiserver"

# --- Clients

kubeconfig "$work/through.kubeconfig" "$front" "client-certificate: $work/admin.crt, client-key: $work/admin.key"
mkfifo "$work/commands"
exec 9<> "$work/commands"
"$traffic" -kubeconfig "$work/through.kubeconfig" -informers "$informers" -readers 8 -newcomers 4 -reads 10 \
  < "$work/commands" > "$work/traffic.log" 2> "$work/traffic.err" &
processes+=("$!")
eventually "$informers informers have synced" 120 grep -q '^synced' "$work/traffic.log"
checked "$informers informers, 8 readers, 4 readers with new connections and a writer go through haproxy"
sleep "$pause"
same "the replicas that filled their caches at the start" "$(filled)" 3

# --- The restarts

for ((round = 1; round <= rounds; round++)); do
  for number in 1 2 3; do
    open=$(connections_of "$number")
    kill -TERM "${pids[$number]}"
    began=$SECONDS
    code=0
    wait "${pids[$number]}" || code=$?
    same "the exit status of replica $number" "$code" 0
    took=$((SECONDS - began))
    start_replica "$number"
    eventually "replica $number is back" 60 is "$number" UP
    checked "round $round: replica $number had $open connections, stopped within $took s, and is back"
    sleep "$pause"
  done
done

echo finish >&9
eventually "the clients have finished" 150 grep -q '^events' "$work/traffic.log"
grep -E '^(total|events)' "$work/traffic.log"
restarts=$((3 * rounds))
echo "restarts=$restarts resumed=$(resumed) filled=$(($(filled) - 3))"

figure() { sed -nE "s/^(total )?$1( .*)? $2=([^ ]*).*/\\3/p" "$work/traffic.log" | tail -n 1; }
for clients in writer readers newcomers; do
  same "failed requests of $clients" "$(figure $clients failed)" 0
  [ "$(figure $clients calls)" -gt 50 ] || fail "$clients made only $(figure $clients calls) requests"
  same "reads of $clients that were older than a write" "$(figure $clients stale)" 0
done
same "lists of informers after the start" "$(figure informers lists)" 0
same "watch lists of informers after the start" "$(figure informers watch_lists)" 0
[ "$(figure informers watches)" -ge "$informers" ] || fail "not every informer had to watch anew: the restarts were not seen"
same "events lost" "$(figure events lost)" 0
same "events repeated" "$(figure events repeated)" 0
same "events out of order" "$(figure events disordered)" 0
if [ -z "$cold" ]; then
  same "restarts that began with the saved store" "$(resumed)" "$restarts"
  same "times that replicas read all objects from kube-apiserver after the start" "$(($(filled) - 3))" 0
else
  same "times that replicas read all objects from kube-apiserver after the start" "$(($(filled) - 3))" "$restarts"
fi
checked "no request failed, no event was lost, no informer listed anew"
