#!/bin/sh
# One shard of a run, on whichever machine a scheduler starts it: which one it is stands
# in Slurm's, Kubernetes' or plain variables. Called again it goes on where it stopped.
#
#   BENCH    the command, ./bench-all of a bundle by default
#   OUT      where records go, ./shards by default; on a disk that outlives the machine
#   PROFILE  data/profiles/<id>.toml; by default what bench-all finds fitting
#   SHARDS   how many parts there are (Slurm says it itself)
#   MINUTES  begin nothing new after so long
#
# Exit status 0: the shard is complete, though a target may have failed, which is in the
# record. 4: time is up, call it again. Anything else: it can't go on.
set -eu

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    index=$((SLURM_ARRAY_TASK_ID - ${SLURM_ARRAY_TASK_MIN:-0} + 1))
    shards=${SHARDS:-$SLURM_ARRAY_TASK_COUNT}
elif [ -n "${JOB_COMPLETION_INDEX:-}" ]; then
    index=$((JOB_COMPLETION_INDEX + 1))
    shards=${SHARDS:?set it to the number of completions}
else
    index=${SHARD_INDEX:?set it to a number from 1 to SHARDS}
    shards=${SHARDS:?set it to the number of shards}
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
