# shellcheck shell=bash disable=SC2154
# Plays the node for run.sh, which sources this file: a file system of its own over
# the machine's, a network of its own, and what kubelet does with static Pods. Those of
# kubeadm run without containers; those with a root of their own run in what
# container.sh makes of the image in $work/image. $root is the checkout, $work is a folder for its files, $default_grace the seconds that
# a Pod has to end if it does not say: kubelet's are 30.

# Lays folders of their own over those of the machine that the move changes. Nothing
# that is written there is left afterwards.
own_folders() {
  local folder layer
  mkdir "$work/layers"
  mount -t tmpfs none "$work/layers"
  for folder in /etc /var/lib /usr/local; do
    layer=$work/layers/${folder//\//-}
    mkdir "$layer" "$layer.work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$layer,workdir=$layer.work" "$folder"
  done
}

own_network() {
  ip link set lo up
  ip address add 192.0.2.10/32 dev lo
  # On a node, kube-proxy makes the kernel take note of connections.
  nft 'table inet node { chain own { type filter hook output priority 0; ct state new accept; }; }'
}

# The command of a static Pod, one word a line. kubeadm writes lists in this form.
command_of() {
  awk '/^  (  |- )command:$/ { list = 1; next }
    list && /^    - / { print substr($0, 7); next }
    { list = 0 }' "$1"
}

# Runs one static Pod until TERM: its name, its manifest. As kubelet does, it starts a
# container that ended again, later each time, and gives it a time to end.
run_pod() {
  local name=$1 file=$2 grace pause=1 child stopping='' words
  grace=$(sed -nE 's/^  terminationGracePeriodSeconds: //p' "$file")
  mapfile -t words < <(command_of "$file")
  if grep -q 'readOnlyRootFilesystem: true' "$file"; then
    words=(unshare --mount "$root/tests/in-place/container.sh" "$work/image" "$file" "${words[@]}")
  fi
  awk '/^      path: / { path = $2 } /^      type: DirectoryOrCreate$/ { print path }' "$file" | xargs -r mkdir -p
  trap 'stopping=1; kill -TERM "${child:-$BASHPID}" 2>/dev/null || true' TERM
  while [ -z "$stopping" ]; do
    "${words[@]}" >> "$work/$name.log" 2>&1 &
    child=$!
    wait "$child" || true
    if [ -n "$stopping" ]; then break; fi
    printf '%s %s\n' "$(date +%H:%M:%S)" "$name" >> "$work/restarts"
    sleep "$pause" &
    child=$!
    wait "$child" || true
    pause=$((pause == 1 ? 10 : pause * 2))
  done
  local deadline=$((SECONDS + ${grace:-$default_grace}))
  while kill -0 "$child" 2>/dev/null; do
    if ((SECONDS >= deadline)); then
      echo "$name was killed" >> "$work/restarts"
      kill -KILL "$child" 2>/dev/null || true
      wait "$child" || true
      return
    fi
    sleep 0.05
  done
}

# Runs what is in a folder of manifests, as it changes, until TERM.
kubelet() {
  local manifests=$1 file sum
  local -A pods=() sums=() ending=()
  trap 'for pod in "${pods[@]}"; do kill -TERM "$pod" 2>/dev/null || true; done; wait; exit 0' TERM
  while :; do
    for file in "${!pods[@]}"; do
      if [ ! -f "$file" ] || [ "$(sha256sum < "$file")" != "${sums[$file]}" ]; then
        kill -TERM "${pods[$file]}" 2>/dev/null || true
        ending[$file]=${pods[$file]}
        unset "pods[$file]"
      fi
    done
    for file in "$manifests"/*.yaml; do
      [ -f "$file" ] && [ -z "${pods[$file]:-}" ] || continue
      # A Pod of the same name must have ended.
      ! kill -0 "${ending[$file]:-none}" 2>/dev/null || continue
      sum=$(sha256sum < "$file")
      sums[$file]=$sum
      cp "$file" "$work/pod.yaml" || continue
      mv "$work/pod.yaml" "$work/${file##*/}.running"
      run_pod "$(basename "$file" .yaml)" "$work/${file##*/}.running" &
      pods[$file]=$!
    done
    sleep 0.1
  done
}
