#!/usr/bin/env bash
# Plays a container for node.sh: runs the command of a static Pod in the root that an
# image and the Pod's volumes make, as the Pod's user, without capabilities. It is the
# root of a mount namespace of its own, read-only if the Pod says so. What it does not
# play is seccomp.
#
#   container.sh IMAGE MANIFEST COMMAND...
set -euo pipefail
image=$1 manifest=$2
shift 2

value() { sed -nE "s/^ +$1: (.*)/\1/p" "$manifest" | head -n 1; }

# One line for each volume that is mounted: host path, path in the container, whether
# it is read-only.
mounts() {
  awk '
    /^  volumes:$/ { volumes = 1 }
    /^ +- name: / { name = $3 }
    !volumes && /^      mountPath: / { at[name] = $2; read_only[name] = "no" }
    !volumes && /^      readOnly: true$/ { read_only[name] = "yes" }
    volumes && /^      path: / { if (name in at) print $2, at[name], read_only[name] }' "$manifest"
}

root=$(mktemp -d)
mount --bind "$image" "$root"
mkdir -p "$root/proc"
mount -t proc proc "$root/proc"
while read -r from to read_only; do
  [ -d "$from" ] || { echo "$from is not a directory" >&2; exit 1; }
  mkdir -p "$root$to"
  mount --bind "$from" "$root$to"
  [ "$read_only" = no ] || mount -o remount,bind,ro "$root$to"
done < <(mounts)
[ "$(value readOnlyRootFilesystem)" != true ] || mount -o remount,bind,ro "$root"

# With another user than root, all capabilities go. These three do what is left to do.
grep -q 'drop: \[ALL\]' "$manifest"
exec setpriv --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid --no-new-privs \
  chroot --userspec="$(value runAsUser):$(value runAsGroup)" --groups= "$root" "$@"
