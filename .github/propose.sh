#!/usr/bin/env bash
# Opens a pull request with new records, and comments the verdict on another one where
# that was asked for. In: results/ (as bench.yml uploads them), GH_TOKEN, COMMENT_ON.
set -euo pipefail
branch="results/${GITHUB_RUN_ID:?}-${GITHUB_RUN_ATTEMPT:?}"
cp -r results/data/results/. data/results/
git switch --create "$branch"
git add data/results
if git diff --cached --quiet; then
    echo "No new records: nothing to propose"
else
    git -c user.name="github-actions[bot]" \
        -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
        commit --quiet --message "Record a run"
    # The token is given to this one command, and left in no file.
    git -c "http.extraheader=AUTHORIZATION: basic $(printf 'x-access-token:%s' "$GH_TOKEN" | base64 -w0)" \
        push --quiet origin "$branch"
    gh pr create --head "$branch" --title "Record a run" --body-file results/verdict.md
fi
if [[ "${COMMENT_ON:-}" =~ ^[0-9]+$ ]]; then
    gh pr comment "$COMMENT_ON" --body-file results/verdict.md
fi
