#!/usr/bin/env bash
# Makes the certificates and the kubeconfig with which apifront stands before a
# cluster, from the cluster's own authorities. For kubeadm clusters: run it on a
# control-plane node, as root.
#
#   certificates.sh SERVER [NAME...]
#
# SERVER is the URL of the API server; each NAME is a DNS name or an IPv4 address
# by which clients will reach apifront. Without any NAME it makes only apifront's own
# credentials. PKI and OUT say where to read and write.
set -euo pipefail
pki=${PKI:-/etc/kubernetes/pki}
out=${OUT:-/etc/apifront}
days=365
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
server=$1
shift

umask 077
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# issue makes a key and a certificate: file, authority, subject, extensions.
issue() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc \
    -subj "$3" -keyout "$1.key" -out "$work/request" 2>/dev/null
  openssl x509 -req -in "$work/request" -days "$days" -sha256 \
    -CA "$pki/$2.crt" -CAkey "$pki/$2.key" -set_serial "0x$(openssl rand -hex 16)" \
    -extfile <(printf '%b' "$4") -out "$1.crt" 2>/dev/null
}

names=
for name in "$@"; do
  case $name in
    *[!0-9.]*) names+=,DNS:$name ;;
    *) names+=,IP:$name ;;
  esac
done

if [ -n "$names" ]; then
  mkdir -p "$out/tls" "$out/proxy"
  # This certificate is what clients see. The cluster's CA signs it, so that the
  # clients' kubeconfigs trust it.
  issue "$out/tls/tls" ca "/CN=apifront" "subjectAltName=${names#,}\nextendedKeyUsage=serverAuth\n"
  # This certificate lets apifront name its callers in X-Remote-* headers. The API
  # server must know its common name: --requestheader-allowed-names.
  issue "$out/proxy/tls" front-proxy-ca "/CN=front-proxy-client" "extendedKeyUsage=clientAuth\n"
  # This CA signs the client certificates that apifront accepts: the cluster's, as
  # before.
  cp "$pki/ca.crt" "$out/client-ca.crt"
fi
# This certificate is apifront's own identity. rbac.yaml gives this user its
# rights.
issue "$work/own" ca "/CN=apifront" "extendedKeyUsage=clientAuth\n"

cat > "$out/upstream.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: apifront
  user:
    client-certificate-data: $(base64 -w0 "$work/own.crt")
    client-key-data: $(base64 -w0 "$work/own.key")
contexts:
- name: apifront
  context: {cluster: cluster, user: apifront}
current-context: apifront
EOF
find "$out" -type f | sort
