#!/bin/sh
# One shard of a run, on whichever machine a scheduler starts it: which one it is stands
# in Slurm's, Kubernetes' or plain variables. Called again it goes on where it stopped.
#
#   BENCH    the command, ./bench-all of a bundle by default
#   OUT      where records go, ./shards by default; on a disk that outlives the machine
#   PROFILE  data/profiles/<id>.toml; by default what bench-all finds fitting
#   SHARDS   how many parts there are (Slurm says it itself)
#   MINUTES  begin nothing new after so long
#   PROMPT_SEED  the seed of the prompts, a number, equal for all shards. By default Slurm's and
#            Kubernetes' shards share the one in $OUT/prompt-seed, which the first to start
#            draws; where machines share no disk, set it
#
# Exit status 0: the shard is complete, though a target may have failed, which is in the
# record. 4: time is up, call it again. Anything else: it can't go on.
set -eu

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    index=$((SLURM_ARRAY_TASK_ID - ${SLURM_ARRAY_TASK_MIN:-0} + 1))
    shards=${SHARDS:-$SLURM_ARRAY_TASK_COUNT}
    shared=yes
elif [ -n "${JOB_COMPLETION_INDEX:-}" ]; then
    index=$((JOB_COMPLETION_INDEX + 1))
    shards=${SHARDS:?set it to the number of completions}
    shared=yes
else
    index=${SHARD_INDEX:?set it to a number from 1 to SHARDS}
    shards=${SHARDS:?set it to the number of shards}
    shared=
fi

# A directory of its own, so that "latest" is this shard's run and no other's.
out=${OUT:-shards}/$index-of-$shards
set --
if [ -n "${MINUTES:-}" ]; then
    set -- --stop-after "$MINUTES"
fi
begun=
for header in "$out"/*/run.json; do
    if [ -e "$header" ]; then
        begun=yes
    fi
done
if [ -n "$begun" ]; then
    set -- --resume latest "$@"
else
    if [ -n "${PROFILE:-}" ]; then
        set -- --profile "$PROFILE" "$@"
    fi
    seed=${PROMPT_SEED:-}
    if [ -z "$seed" ] && [ -n "$shared" ]; then
        # A link is made whole or not at all, so that all shards read one number.
        common=${OUT:-shards}/prompt-seed
        mkdir -p "${OUT:-shards}"
        od -An -N4 -tu4 /dev/urandom | tr -d ' ' >"$common.$index"
        ln "$common.$index" "$common" 2>/dev/null || true
        rm "$common.$index"
        seed=$(cat "$common")
    fi
    if [ -n "$seed" ]; then
        set -- --prompt-seed "$seed" "$@"
    fi
    set -- --shard "$index/$shards" "$@"
fi

status=0
# BENCH may be a command with its first words.
# shellcheck disable=SC2086
${BENCH:-./bench-all} "$@" --out "$out" || status=$?
if [ "$status" -eq 3 ]; then
    status=0
fi
exit "$status"
