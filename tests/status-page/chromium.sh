#!/usr/bin/env bash
# Prints the path of Chromium, or of a browser that is driven like it.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name"; then exit; fi
done
echo "FAILED: chromium is needed" >&2
exit 1
