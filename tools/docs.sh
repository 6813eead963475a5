#!/usr/bin/env bash
# Builds the documents as a site, in the folder of the first argument. The site has
# the files that the documents lead to, too, at the same places as the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
site=$1
mdbook=$(command -v mdbook || true)
if [ -z "$mdbook" ]; then
  tools=${XDG_CACHE_HOME:-$HOME/.cache}/apifront/tools
  mdbook=$tools/bin/mdbook
  if [ ! -x "$mdbook" ]; then
    echo "installing mdbook (minutes, once)" >&2
    cargo install --quiet --locked --root "$tools" mdbook@0.5.4
  fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
git ls-files --cached --others --exclude-standard -- '*.md' LICENSE Dockerfile charts config deploy docs examples tests/charts/parts |
  tar -c -T - | tar -x -C "$work/src"
# The chapters, as seen from the root.
sed -E 's#\]\(([^.])#](docs/\1#; s#\]\(\.\./#](#' "$work/src/docs/SUMMARY.md" > "$work/src/SUMMARY.md"
rm "$work/src/docs/SUMMARY.md"
# mdBook makes index.html of a README.md, but leaves the links to it.
find "$work/src" -name '*.md' ! -name SUMMARY.md -exec sed -i -E 's#(\]\([^)]*)README\.md#\1index.md#g' {} +
cat > "$work/book.toml" <<'TOML'
[book]
title = "apifront"
[output.html]
no-section-label = true
TOML
"$mdbook" build --dest-dir "$(realpath -m "$site")" "$work"
echo "$site/index.html"
