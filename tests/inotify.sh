#!/usr/bin/env bash
# Sees to it that the servers of the tests can watch their files. Each
# kube-apiserver takes six inotify instances and each apifront one, of 128 that a
# user has by default. The suites run more of them at a time. Without an instance
# kwok ends `kubectl attach` and `kubectl logs --follow` at once.
set -euo pipefail
needed=512
limit=/proc/sys/fs/inotify/max_user_instances
[ -r "$limit" ] || exit 0
has=$(cat "$limit")
[ "$has" -lt "$needed" ] || exit 0
if [ -w "$limit" ] && { echo "$needed" > "$limit"; } 2> /dev/null; then
  echo "inotify instances of a user: $has, raised to $needed" >&2
else
  echo "a user has $has inotify instances; if tests of logs or attach fail: sudo sysctl fs.inotify.max_user_instances=$needed" >&2
fi
