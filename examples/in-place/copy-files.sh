#!/usr/bin/env bash
# Copies the keys and certificates that apifront needs to a folder of its own, for the
# user apifront, who can read no others of this node. Run it as root.
#
# apifront-files.timer runs it every minute, so that the copies follow what kubeadm
# renews. It writes only what has changed, and apifront reads a changed file by itself. A
# certificate whose key is another's is not copied: kubeadm is writing one of them just
# then, and the next run copies both.
set -euo pipefail
pki=${PKI:-/etc/kubernetes/pki}
# apifront's own kubeconfig, by examples/cluster/certificates.sh.
own=${OWN:-/etc/kubernetes/apifront}
out=${OUT:-/etc/apifront/pki}
user=apifront

# What examples/in-place/front.yaml names. No authority's key is among them, nor that of
# service accounts' tokens, nor any of etcd.
pairs=(apiserver front-proxy-client)
files=("$pki"/{apiserver,front-proxy-client}.{key,crt} "$pki"/{ca,front-proxy-ca}.crt "$own/upstream.kubeconfig")

umask 077
work=$(mktemp -d "$own/copies.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "${files[@]}" "$work"
for pair in "${pairs[@]}"; do
  if ! cmp -s <(openssl x509 -in "$work/$pair.crt" -noout -pubkey) <(openssl pkey -in "$work/$pair.key" -pubout); then
    echo "nothing was copied: $pki/$pair.key is not the key of $pair.crt" >&2
    exit 1
  fi
done

group=$(id -gn "$user")
install -d -m 0500 -o "$user" -g "$group" "$out"
for file in "${files[@]}"; do
  name=${file##*/}
  cmp -s "$work/$name" "$out/$name" && continue
  install -m 0400 -o "$user" -g "$group" "$work/$name" "$out/.$name"
  mv -f "$out/.$name" "$out/$name"
  echo "copied $name"
done
