# shellcheck shell=bash disable=SC2154
# Runs the commands of docs/deployment.md and docs/in-place.md for scripts that source
# this file.

# The commands of a section of these documents: its indented lines, but for transcripts,
# which begin with a prompt.
section() {
  awk -v heading="$1" '/^#+ / { inside = ($0 ~ "^#+ " heading "$"); transcript = 0 }
    /^$/ { transcript = 0 }
    inside && /^    \$ / { transcript = 1 }
    inside && /^    / && !transcript { print substr($0, 5) }' "$root"/docs/{deployment,in-place}.md
}

run_section() { # heading, the least number of lines
  section "$1" > "$work/section"
  [ "$(wc -l < "$work/section")" -ge "$2" ] || fail "docs/deployment.md and docs/in-place.md have fewer than $2 commands in $1"
  (cd "$root" && bash -euo pipefail "$work/section") > "$work/section.log" 2>&1 ||
    fail "$1: $(tail -n 5 "$work/section.log")"
  grep -E '^[0-9:]{8} |✗' "$work/section.log" | sed 's/^/       /' || true
}
