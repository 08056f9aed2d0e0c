#!/usr/bin/env bash
# Tries a bundle that was just packed, in the container of examples/container: it measures the
# profile smoke and renders the report, without a network. In: the directory of the archives.
set -euo pipefail
dist=${1:?name the directory of the archives}
here=$(dirname "$0")
image=llm-engine-bench:smoke
out=$(mktemp -d)
docker build --file "$here/../examples/container/Containerfile" --tag "$image" "$dist"
# `checksums/` says what was packed, part by part.
docker run --rm --network none --entrypoint /bin/sh "$image" -c \
    'sha256sum --check --quiet checksums/*.sha256'
docker run --rm --network none --volume "$out:/bench/target" "$image" bench-all --profile smoke \
    --engines lmrs,candle
test -s "$out/site/index.html"
# An engine that does not start is recorded as unavailable, which is no failure of a run.
if grep --extended-regexp --quiet '"status": ?"unavailable"' "$out/site/results.json"; then
    echo "an engine of the bundle does not start: see the coverage page in $out/site" >&2
    exit 1
fi
