#!/usr/bin/env bash
# Judges the records that a pull request adds, by the records alone: nothing is measured. What was
# published before may be taken away, and never changes.
# In: BASE, the revision that the pull request is held against; XTASK (a program, where it isn't
# `cargo xtask`). Exit status 1 where a record may not be published, or one has changed.
set -euo pipefail

xtask() {
    if [ -n "${XTASK:-}" ]; then
        "$XTASK" "$@"
    else
        cargo --quiet xtask "$@"
    fi
}

# The records with one of these statuses, each ended by a NUL.
records() {
    git diff -z --name-only --no-renames --diff-filter="$1" "$BASE" HEAD -- data/results
}

git rev-parse --verify --quiet "${BASE:?}^{commit}" >/dev/null
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
failed=0
mapfile -d '' -t changed < <(records MT)
for file in "${changed[@]}"; do
    printf '%q was published and has changed: a record never changes; submit another run instead\n' "$file" |
        tee -a "$summary"
    failed=1
done
mapfile -d '' -t added < <(records A)
for file in "${added[@]}"; do
    said=$(xtask submit --check-only -- "$file" 2>&1) || failed=1
    printf '%q\n%s\n\n' "$file" "$said"
    # Nothing of a record may end the code that it stands in.
    said=$(tr '`' "'" <<<"$said")
    # shellcheck disable=SC2016 # it is Markdown's code
    printf '```text\n%q\n%s\n```\n\n' "$file" "$said" >>"$summary"
done
echo "${#added[@]} added, ${#changed[@]} changed"
exit "$failed"
