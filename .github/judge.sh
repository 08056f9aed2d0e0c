#!/usr/bin/env bash
# Puts the shards of each machine together and holds the result against the newest run of
# such a machine that is published here. The verdict goes to verdict.md and to the job's
# summary. A regression fails nothing: whoever reads the pull request decides.
# In: shards/shard-<label>-<i>of<n>/<run>/, RUNNERS (a JSON list of labels), SHARDS (a JSON list
# of i/n), XTASK (a program, where it isn't `cargo xtask`). Out: data/results/, verdict.md.
set -euo pipefail

xtask() {
    if [ -n "${XTASK:-}" ]; then
        "$XTASK" "$@"
    else
        cargo xtask "$@"
    fi
}

# What makes two runs' numbers those of one machine, of a run.json.
host() {
    jq -c '[.provenance.facts.cpu_model, .provenance.facts.gpu, .plan.profile, .plan.model]'
}

# The newest published run like the one in $1; nothing where there is none.
published() {
    local like newest='' packed id
    like=$(host <"$1/run.json")
    for packed in data/results/*.tar.zst; do
        id=$(basename "$packed" .tar.zst)
        if [ -e "$packed" ] && [ "$(tar --zstd -xOf "$packed" "$id/run.json" | host)" = "$like" ]; then
            newest=$id
        fi
    done
    printf '%s' "$newest"
}

mkdir -p data/results
: >verdict.md
verdict=none
# Assigned first, so that a list which is none ends this.
named_labels=$(jq -r '.[]' <<<"$RUNNERS")
named_shards=$(jq -r '.[]' <<<"$SHARDS")
mapfile -t labels <<<"$named_labels"
mapfile -t parts <<<"$named_shards"
for label in "${labels[@]}"; do
    printf '## %s\n\n' "$label" >>verdict.md
    runs=()
    missing=0
    # By their exact names: another label may begin with this one.
    for shard in "${parts[@]}"; do
        found=0
        for header in shards/"shard-$label-${shard/\//of}"/*/run.json; do
            if [ -e "$header" ]; then
                runs+=("$(dirname "$header")")
                found=1
            fi
        done
        if [ "$found" -eq 0 ]; then
            printf 'Nothing was measured of shard %s.\n\n' "$shard" >>verdict.md
            missing=1
        fi
    done
    if [ "${#runs[@]}" -eq 0 ]; then
        continue
    fi
    # The records stay in the job's artifacts, to be merged with what is measured again.
    if [ "$missing" -eq 1 ]; then
        printf 'The other shards alone are no whole run, so nothing is proposed or judged.\n\n' >>verdict.md
        continue
    fi
    before=$(published "${runs[0]}")
    if [ "${#runs[@]}" -eq 1 ]; then
        run=${runs[0]}
    else
        # 3: merged, but a target failed, which is in the record.
        status=0
        xtask merge "${runs[@]}" --out "merged/$label" || status=$?
        if [ "$status" -ne 0 ] && [ "$status" -ne 3 ]; then
            printf 'The shards could not be merged; the log of this job says why.\n\n' >>verdict.md
            continue
        fi
        run=$(echo "merged/$label"/*)
    fi
    after=$(basename "$run")
    xtask publish "$run" --to data/results
    if [ -z "$before" ]; then
        printf 'The first run of such a machine: there is nothing to compare it with.\n\n' >>verdict.md
        continue
    fi
    status=0
    # It says what changed in Markdown, in which nothing of a record is markup.
    said=$(xtask compare "$before" "$after" --out data/results --format md) || status=$?
    case $status in
    0)
        if [ "$verdict" = none ]; then
            verdict=fine
        fi
        ;;
    1) verdict=regression ;;
    *) said="It can not be said whether anything changed since $before." ;;
    esac
    printf '%s\n\n' "$said" >>verdict.md
done
# A comment holds 65 536 characters. Each line stands for itself, so it may end after any.
if [ "$(wc -c <verdict.md)" -gt 60000 ]; then
    head -c 60000 verdict.md | sed '$d' >cut.md
    # shellcheck disable=SC2016 # it is Markdown's code
    printf '\nThe rest is left out here; `cargo xtask compare` prints it.\n' >>cut.md
    mv cut.md verdict.md
fi
cat verdict.md >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
echo "verdict=$verdict" >>"${GITHUB_OUTPUT:-/dev/stdout}"
