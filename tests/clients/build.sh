#!/usr/bin/env bash
# Builds or installs the program of one client library, such as `python`, in a
# folder of the cache, and prints the file to start as the last line. The lock
# file in the library's folder says what it is made of, and how it is built.
# `kubectl-1.36` is the program `kubectl` with that release. A second argument
# names another folder of tests than this one: `build.sh helm software`.
set -euo pipefail
name=${1:?the name of a library: a folder beside this file}
kind=${2:-clients}
tests=$(cd "$(dirname "$0")/.." && pwd)
here=$tests/$kind/${name%-1.*}
[ -d "$here" ] || { echo "tests/$kind has no folder for $name" >&2; exit 1; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/apifront
shared=("$tests/clients/runner.py")
[ "$kind" = clients ] || shared+=("$tests/$kind"/*.py)
stamp=$(find "$tests/clients/build.sh" "$here" "${shared[@]}" -type f ! -path '*/__pycache__/*' -print0 |
  sort -z | xargs -0 cat | sha256sum | cut -c1-16)
out=$cache/$kind/$name/$stamp
run=$out/run

needs() {
  command -v "$1" >/dev/null || { echo "$1 is needed to run the client $name: see tests/$kind/README.md" >&2; exit 1; }
}

# Writes the file to start, last of all: it says that the build is complete.
write_run() {
  printf '#!/bin/sh\nexec %s\n' "$*" > "$run.part"
  chmod 755 "$run.part"
  mv "$run.part" "$run"
}

if [ ! -x "$run" ]; then
  printf '%s building the client %s ...\n' "$(date +%H:%M:%S)" "$name" >&2
  rm -rf "$out"
  mkdir -p "$out"
  cp -R "$here/." "$out"
  cp "${shared[@]}" "$out"
  cd "$out"
  # Other servers that the program starts: the script that builds them, and their names.
  if [ -f servers.txt ]; then
    while read -r script server; do
      ln -s "$("$tests/$script" "$server" | tail -n 1)/$server" "$server"
    done < servers.txt
  fi
  if [ -d releases ]; then
    needs go
    needs python3
    release=${name#*-}
    if [ -d "releases/$release" ]; then
      (cd "releases/$release" && CGO_ENABLED=0 go build -trimpath -ldflags "$(../../version.sh)" \
        -o "$out/kubectl" k8s.io/kubernetes/cmd/kubectl) >&2
    else
      ln -s "$("$tests/kubernetes/build.sh" | tail -n 1)/kubectl" kubectl
    fi
    write_run python3 "$out/main.py" "$out/kubectl"
  elif [ -f tools.go ]; then
    # A released program, which main.py runs.
    needs go
    needs python3
    package=$(sed -nE 's/^import _ "(.*)"$/\1/p' tools.go)
    go list -f '{{.Module.Version}}' "$package" > version
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o program "$package" >&2
    write_run python3 "$out/main.py" "$out/program"
  elif [ -f go.mod ]; then
    needs go
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o program . >&2
    write_run "$out/program"
  elif [ -f requirements.txt ]; then
    needs python3
    python3 -m venv venv >&2
    venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt >&2
    write_run "$out/venv/bin/python" "$out/main.py"
  elif [ -f package-lock.json ]; then
    needs npm
    npm ci --no-audit --no-fund --loglevel error >&2
    # The library needs a newer Node.js than some distributions have, so it is
    # installed like any other dependency.
    write_run "$(ls -d "$out"/node_modules/node-linux-*/bin/node)" "$out/main.mjs"
  elif [ -f pom.xml ]; then
    needs mvn
    needs java
    mvn --quiet --batch-mode compile dependency:copy-dependencies -DoutputDirectory=libraries >&2
    # A program that lives for a minute gains nothing from the second compiler.
    write_run java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "'$out/target/classes:$out/libraries/*'" Main
  elif [ -f Cargo.toml ]; then
    needs cargo
    # All builds of the crate share their dependencies.
    cargo build --quiet --locked --target-dir "$cache/$kind/$name/target" >&2
    cp "$cache/$kind/$name/target/debug/client-$name" program
    write_run "$out/program"
  elif [ -f main.py ]; then
    needs python3
    ln -s "$("$tests/kubernetes/build.sh" | tail -n 1)/kubectl" kubectl
    write_run python3 "$out/main.py" "$out/kubectl"
  else
    echo "tests/$kind/$name has no lock file that is known" >&2
    exit 1
  fi
  # Builds of earlier sources are deleted when no checkout can still need them.
  find "$cache/$kind/$name" -mindepth 1 -maxdepth 1 -name '????????????????' -mtime +7 -exec rm -rf {} +
fi
echo "$run"
