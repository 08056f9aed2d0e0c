#!/bin/sh
# One part of a run on a machine that is lent for minutes at a time and forgets everything
# afterwards: it goes on with the records that the parts before left, and packs all of them
# into one file, which is all that need be carried away.
#
#   part.sh [words for bench-all]
#
# The words, such as `--engines candle`, say what the run is: only the first part reads them.
#
#   BENCH    the command, ./bench-all of a bundle by default
#   PROFILE  data/profiles/<id>.toml, gpu by default
#   MODEL    llama-3.2-1b-shape by default, which is made on the spot without a network
#   MINUTES  begin nothing new after so long, 9 by default
#   RECORDS  the packed records, read where they are there and written: records.tar.gz
#
# Exit status 0: the run is complete, though a target may have failed, which is in the
# record. 4: time is up, call it again. Anything else: it can't go on.
set -eu

records=${RECORDS:-records.tar.gz}
model=${MODEL:-llama-3.2-1b-shape}
out=lent
# Where golden*.json lie: what the reference answered, where it was asked here, which takes minutes.
goldens=${BENCH_MODELS_DIR:-models}/$model

if [ -e "$records" ] && [ ! -e "$out" ]; then
    # Put in place whole: the machine may be taken at any moment.
    rm -rf unpacking
    mkdir unpacking
    tar -xzf "$records" -C unpacking
    for golden in unpacking/golden*.json; do
        if [ -e "$golden" ] && [ ! -e "$goldens/${golden##*/}" ]; then
            mkdir -p "$goldens"
            mv "$golden" "$goldens"
        fi
    done
    mv unpacking/records "$out"
    rm -rf unpacking
fi
begun=
for header in "$out"/*/run.json; do
    if [ -e "$header" ]; then
        begun=yes
    fi
done
if [ -n "$begun" ]; then
    set -- --resume latest
else
    set -- --profile "${PROFILE:-gpu}" --model "$model" --yes "$@"
fi

status=0
# BENCH may be a command with its first words.
# shellcheck disable=SC2086
${BENCH:-./bench-all} "$@" --stop-after "${MINUTES:-9}" --out "$out" || status=$?

if [ -e "$out" ]; then
    rm -rf packing
    mkdir packing
    cp -R "$out" packing/records
    for golden in "$goldens"/golden*.json; do
        if [ -e "$golden" ]; then
            cp "$golden" packing
        fi
    done
    tar -czf "$records.new" -C packing .
    mv "$records.new" "$records"
    rm -rf packing
    du -k "$records"
fi
if [ "$status" -eq 3 ]; then
    status=0
fi
exit "$status"
