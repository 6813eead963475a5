#!/usr/bin/env bash
# Puts all that apifront needs of a system into a folder, which becomes an image FROM
# scratch: the binary, the libraries that it links (glibc's), the authorities for
# public names, and a name for its user. The Dockerfile and tools/image.sh use it.
#
#   rootfs.sh BINARY FOLDER
set -euo pipefail
binary=${1:?the binary}
folder=${2:?the folder}
authorities=/etc/ssl/certs/ca-certificates.crt
[ -x "$binary" ] || { echo "$binary is no program" >&2; exit 1; }
[ -r "$authorities" ] || { echo "$authorities is missing: install ca-certificates" >&2; exit 1; }

mkdir -p "$folder"/{etc/ssl/certs,tmp,usr/local/bin}
# Symbols and line tables are most of the file. A backtrace out of the image has no names
# of functions: who needs them runs the binary itself, which has both.
strip -o "$folder/usr/local/bin/apifront" "$binary"
chmod 0755 "$folder/usr/local/bin/apifront"
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do
  cp --parents -L "$library" "$folder"
done
cp "$authorities" "$folder$authorities"
echo 'hosts: files dns' > "$folder/etc/nsswitch.conf"
echo 'nonroot:x:65532:65532::/:/sbin/nologin' > "$folder/etc/passwd"
