#!/usr/bin/env bash
# Opens a pull request with an engine's newer release and the verdict on it, or brings the one that is
# open up to date: at most one an engine. In: proposal/ (as try.sh leaves it), ENGINE, PACKAGE, TO,
# GH_TOKEN.
set -euo pipefail
if [ ! -s proposal/change.patch ]; then
    echo "Nothing to propose; the reason is in the summary of the job that tried it"
    exit 0
fi
branch="versions/${ENGINE:?}"
title="${PACKAGE:?} ${TO:?} for $ENGINE"
git switch --create "$branch"
# A newer release moves pins and locks, and what an adapter says of them; nothing else is taken.
git apply --include='engines/*' --include=Cargo.toml --include=Cargo.lock proposal/change.patch
if git diff --quiet; then
    echo "The change is of nothing that may change"
    exit 0
fi
git -c user.name="github-actions[bot]" \
    -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
    commit --quiet --all --message "$title"
# The token is given to this one command, and left in no file. The branch is this script's alone.
git -c "http.extraheader=AUTHORIZATION: basic $(printf 'x-access-token:%s' "$GH_TOKEN" | base64 -w0)" \
    push --quiet --force origin "$branch"
open=$(gh pr list --head "$branch" --state open --json number --jq '.[0].number // empty')
if [ -n "$open" ]; then
    gh pr edit "$open" --title "$title" --body-file proposal/verdict.md
else
    gh pr create --head "$branch" --title "$title" --body-file proposal/verdict.md
fi
