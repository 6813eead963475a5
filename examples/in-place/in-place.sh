#!/usr/bin/env bash
# Puts apifront at port 6443 of a kubeadm control-plane node and kube-apiserver at
# port 6444 behind it, or undoes that. Run it as root on the node.
#
#   in-place.sh install
#   in-place.sh rollback
#
# Nobody is refused a connection in between: while port 6443 changes its owner, new
# connections are redirected (nftables) to an apifront at port 6445. Connections that
# are open stay where they are until their server closes them. Connections over IPv6
# and to loopback are not redirected.
#
# apifront runs as the user apifront, which the script makes. /etc/apifront has its
# configuration and copies of the few keys that it needs (copy-files.sh); a timer of
# systemd renews them. /etc/kubernetes/apifront is root's: apifront's kubeconfig, and what
# the rollback needs.
#
# HISTORY (120) is how many seconds kube-apiserver runs at port 6444 before clients
# get to it. It then remembers every change since their last bookmark, so that they
# go on with their watches instead of listing anew.
# BRIDGE=no leaves out the redirection: for some seconds connections are refused.
set -euo pipefail
manifests=${MANIFESTS:-/etc/kubernetes/manifests}
config=${CONFIG:-/etc/apifront}
state=${STATE:-/etc/kubernetes/apifront}
stores=/var/lib/apifront
units=/etc/systemd/system
user=apifront
admin=${KUBECONFIG:-/etc/kubernetes/admin.conf}
history=${HISTORY:-120}
bridge=${BRIDGE:-yes}
here=$(cd "$(dirname "$0")" && pwd)
table=apifront_in_place

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
  say "stopped: $*. Nothing more was changed; in-place.sh rollback undoes what was" >&2
  exit 1
}

until_true() { # what, seconds, command
  local what=$1 deadline=$((SECONDS + $2))
  shift 2
  until "$@" > /dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "not within its time: $what"
    sleep 0.1
  done
}

node_address() {
  sed -nE 's/^ *- --advertise-address=(.*)$/\1/p' "$1"
}
# Requests from these local ports are never redirected.
good() { curl -fsSk --max-time 5 --local-port 64430-64439 "$1"; }
free() { [ -z "$(ss -Hltn "sport = :$1")" ]; }
unused() { [ -z "$(ss -Htn state established "sport = :$1")" ]; }

# --- The user apifront, and what belongs to it

make_user() {
  getent passwd "$user" > /dev/null ||
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
}

# Makes the copies of keys and certificates, and the timer that renews them.
give_files() {
  install -d -m 0755 "$config"
  chmod 0644 "$config/front.yaml"
  install -d -m 0700 "$stores"
  chown -R "$user:" "$stores"
  install -m 0755 "$here/copy-files.sh" /usr/local/sbin/apifront-copy-files
  install -m 0644 "$here"/apifront-files.{service,timer} "$units/"
  systemctl daemon-reload
  systemctl start apifront-files.service ||
    fail "the files cannot be copied: journalctl --unit apifront-files.service tells why"
  systemctl enable --now apifront-files.timer
  say "the user $user has copies of the files that it needs, and apifront-files.timer renews them"
}

take_files() {
  systemctl disable --now apifront-files.timer || true
  rm -f "$units"/apifront-files.{service,timer} /usr/local/sbin/apifront-copy-files
  systemctl daemon-reload
  rm -rf "$config/pki"
}

# The static Pod, as the user apifront.
manifest() {
  sed -e "s/^    runAsUser: .*/    runAsUser: $(id -u "$user")/" \
    -e "s/^    runAsGroup: .*/    runAsGroup: $(id -g "$user")/" "$here/apifront.yaml"
}

# --- The redirection of new connections from port 6443 to port 6445

bridge_on() {
  [ "$bridge" = yes ] || return 0
  # The kernel may take note of a connection only now that is open for long: the
  # first packet of a new one is meant.
  local first='tcp flags & (fin | syn | rst | ack) == syn'
  # kube-apiserver needs its own port on loopback to start.
  local here_but_loopback='fib daddr type local ip daddr != 127.0.0.0/8'
  nft -f - <<TEXT
add table inet $table
delete table inet $table
table inet $table {
  chain arriving {
    type nat hook prerouting priority -110;
    $first $here_but_loopback tcp sport != 64430-64439 tcp dport 6443 redirect to :6445
  }
  chain own {
    type nat hook output priority -110;
    $first $here_but_loopback tcp sport != 64430-64439 tcp dport 6443 redirect to :6445
  }
}
TEXT
  say "new connections to port 6443 go to port 6445"
}

# The chains stay until the redirected connections have ended: without any chain for
# addresses, the kernel would no longer translate those.
bridge_off() {
  nft list table inet "$table" > /dev/null 2>&1 || return 0
  nft "flush table inet $table"
  say "new connections to port 6443 go to port 6443"
}

# An apifront like the one at port 6443, at port 6445.
start_at_6445() {
  [ "$bridge" = yes ] || return 0
  sed -E 's/^( *securePort:) 6443/\1 6445/; $a\observability: {port: 9445}' \
    "$config/front.yaml" > "$config/front-6445.yaml"
  chmod 0644 "$config/front-6445.yaml"
  manifest | sed -e 's/^  name: apifront$/  name: apifront-6445/' -e 's/6443/6445/' \
    -e 's|front.yaml|front-6445.yaml|' > "$state/apifront-6445.yaml"
  mv "$state/apifront-6445.yaml" "$manifests/"
  until_true "apifront at port 6445 is ready" 120 good http://127.0.0.1:9445/readyz
  say "apifront is ready at port 6445"
}

# It ends in order: watches are closed, and connections told to go.
stop_at_6445() {
  [ "$bridge" = yes ] || return 0
  rm -f "$manifests/apifront-6445.yaml"
  until_true "apifront at port 6445 has ended" 90 free 6445
  rm -f "$config/front-6445.yaml"
  # Its connections are closed after its port, and their last packets go on a moment
  # longer.
  until_true "the connections to port 6445 have ended" 90 unused 6445
  sleep 2
  nft delete table inet "$table" 2>/dev/null || true
}

# --- The endpoints of the Service `kubernetes`

direct() { kubectl --kubeconfig "$admin" --server "https://$1:6444" -n default "${@:2}"; }

# kube-apiserver empties them when it ends.
save_endpoints() {
  direct "$1" get endpoints,endpointslices kubernetes -o yaml 2> /dev/null |
    sed -E '/^    (resourceVersion|uid|creationTimestamp|generation):/d' > "$state/endpoints.yaml"
}

restore_endpoints() {
  direct "$1" apply --server-side --force-conflicts -f "$state/endpoints.yaml" > /dev/null 2>&1 ||
    fail "the endpoints in $state/endpoints.yaml cannot be written"
}

# --- The two moves

install_it() {
  local before=$manifests/kube-apiserver.yaml behind=$manifests/kube-apiserver-6444.yaml address
  [ -f "$before" ] || fail "$before does not exist"
  [ -f "$config/front.yaml" ] || fail "$config/front.yaml does not exist"
  [ -f "$state/upstream.kubeconfig" ] || fail "$state/upstream.kubeconfig does not exist"
  [ ! -e "$state/kube-apiserver.yaml" ] || fail "$state/kube-apiserver.yaml exists: the move was made before"
  address=$(node_address "$before")
  [ -n "$address" ] || fail "$before has no --advertise-address"
  make_user
  give_files

  # Both use the same etcd. The new one does not write the endpoints of the Service
  # `kubernetes`: they stay at port 6443. The annotation for kubeadm stays, too.
  sed -e 's/^  name: kube-apiserver$/  name: kube-apiserver-6444/' \
    -e 's/--secure-port=6443/--secure-port=6444/' -e 's/containerPort: 6443/containerPort: 6444/' \
    -e 's/^\( *\)- --secure-port=6444$/&\n\1- --endpoint-reconciler-type=none\n\1- --requestheader-uid-headers=X-Remote-Uid/' \
    "$before" > "$state/kube-apiserver-6444.yaml"
  mv "$state/kube-apiserver-6444.yaml" "$behind"
  until_true "kube-apiserver at port 6444 is ready" 180 good "https://$address:6444/readyz"
  say "kube-apiserver is ready at port 6444, beside the one at port 6443"
  start_at_6445
  sleep "$history"

  save_endpoints "$address"
  bridge_on
  mv "$before" "$state/kube-apiserver.yaml"
  until_true "port 6443 is free" 120 free 6443
  restore_endpoints "$address"
  say "port 6443 is free"
  manifest > "$state/apifront.yaml"
  mv "$state/apifront.yaml" "$manifests/"
  until_true "apifront at port 6443 is ready" 120 good http://127.0.0.1:9443/readyz
  say "apifront is ready at port 6443"
  bridge_off
  stop_at_6445
  say "installed"
}

rollback() {
  local saved=$state/kube-apiserver.yaml address
  if [ ! -f "$saved" ]; then
    # The install stopped before the port changed its owner, or never was.
    [ -f "$manifests/kube-apiserver.yaml" ] || fail "neither $saved nor the manifest exists"
    bridge_off
    stop_at_6445
    rm -f "$manifests/kube-apiserver-6444.yaml"
    until_true "port 6444 is free" 120 free 6444
    take_files
    say "rolled back: port 6443 had not changed its owner"
    return
  fi
  address=$(node_address "$saved")
  if good http://127.0.0.1:9443/readyz > /dev/null 2>&1; then
    start_at_6445
    bridge_on
  fi
  rm -f "$manifests/apifront.yaml"
  until_true "port 6443 is free" 120 free 6443
  say "port 6443 is free"
  mv "$saved" "$manifests/kube-apiserver.yaml"
  until_true "kube-apiserver at port 6443 is ready" 180 good "https://$address:6443/readyz"
  say "kube-apiserver is ready at port 6443"
  [ "$bridge" != yes ] || sleep "$history"
  bridge_off
  stop_at_6445
  rm -f "$manifests/kube-apiserver-6444.yaml"
  until_true "port 6444 is free" 120 free 6444
  take_files
  say "rolled back"
}

case ${1:-} in
  install) install_it ;;
  rollback) rollback ;;
  *)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
