#!/usr/bin/env bash
# Measures an engine as it is and with a newer release of its package, on one machine, and holds the
# two against each other. Where that can't be, it says why and proposes nothing: the reason is in the
# job's summary. In: ENGINE, PACKAGE, FROM, TO. Out: proposal/verdict.md, and proposal/change.patch
# where there is something to propose.
set -euo pipefail
mkdir -p proposal
verdict=proposal/verdict.md
printf '%s: %s %s, until now %s.\n\n' "${ENGINE:?}" "${PACKAGE:?}" "${TO:?}" "${FROM:?}" >"$verdict"

finish() {
    cat "$verdict" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
    exit 0
}

give_up() {
    {
        printf 'Nothing is proposed: %s\n\n```\n' "$1"
        tail -n 20 said.txt
        printf '```\n'
    } >>"$verdict"
    finish
}

# 3: done, but a target failed, which is in the record.
measure() {
    local status=0
    # A program that can't be built would be recorded as unavailable, which is no failure of a run.
    cargo xtask build "$ENGINE" >said.txt 2>&1 || return 1
    cargo xtask bench --engines "$ENGINE" --profile cpu --scenarios single_request "$@" \
        >said.txt 2>&1 || status=$?
    test "$status" -eq 0 || test "$status" -eq 3
}

# What takes no time to find out comes first.
python3 .github/versions/versions.py update "$ENGINE" "$TO" >said.txt 2>&1 ||
    give_up "its lock could not be made anew."
cargo xtask tidy >said.txt 2>&1 || give_up "something else is tied to the version that is measured."
git diff --binary >moved.patch
git apply --reverse moved.patch
measure --save before || give_up "it could not be measured as it is."
git apply moved.patch
measure || give_up "it can not be built or measured with the newer release."
status=0
cargo xtask compare before --format md >compared.md 2>said.txt || status=$?
# 1: slower, or it fails at what worked: that is for whoever reads the pull request.
if [ "$status" -gt 1 ]; then
    give_up "it can not be said whether anything changed."
fi
{
    printf 'Both were measured one after the other on one of the hosted machines, single requests of the '
    printf 'profile cpu. Hosted machines are noisy: measure again before a number is published.\n\n'
    head -c 50000 compared.md
} >>"$verdict"
mv moved.patch proposal/change.patch
finish
