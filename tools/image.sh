#!/usr/bin/env bash
# Makes the image from a binary that was built on this machine, without any registry.
# The last stage is that of the Dockerfile. It needs buildah; with root's rights or
# without.
#
#   image.sh BINARY IMAGE ARCHIVE
#
# IMAGE is its name, such as localhost/apifront:0.1.0; ARCHIVE is a file for
# `podman load`, `ctr images import`, or a `skopeo copy` to a registry.
set -euo pipefail
binary=${1:?the binary}
image=${2:?a name for the image}
archive=${3:?a file for the image}
root=$(cd "$(dirname "$0")/.." && pwd)
command -v buildah > /dev/null || { echo "buildah is needed" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-image.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$root/tools/rootfs.sh" "$binary" "$work/rootfs"
sed -n '/^FROM scratch/,$ s|--from=build /rootfs/|rootfs/|p; /^FROM scratch/,$ { /--from=build/!p }' \
  "$root/Dockerfile" > "$work/Containerfile"
# The store of images is a folder of its own, which any file system can hold.
rm -f "$archive"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store=(--root "$work/store" --runroot "$work/run")
as_user=()
[ "$(id -u)" = 0 ] || as_user=(buildah "${store[@]}" unshare)
"${as_user[@]}" buildah "${store[@]}" build --quiet --timestamp "${SOURCE_DATE_EPOCH:-0}" \
  --label "org.opencontainers.image.title=apifront" \
  --tag "$image" --file "$work/Containerfile" "$work" > /dev/null
"${as_user[@]}" buildah "${store[@]}" push --quiet "$image" "oci-archive:$archive:$image"
printf '%s: %s, %s MB of files, of which the binary has %s MB; %s MB as an archive\n' "$image" "$archive" \
  "$(du -sm --apparent-size "$work/rootfs" | cut -f1)" \
  "$(du -m --apparent-size "$work/rootfs/usr/local/bin/apifront" | cut -f1)" \
  "$(du -m --apparent-size "$archive" | cut -f1)"
"${as_user[@]}" rm -rf "$work/store" "$work/run"
