#!/bin/sh
# Starts the harness of this bundle, from wherever it is called. It uses nothing but
# the shell itself, and looks at the processor first: a program compiled for another
# one would only be killed, without a word.
set -eu
case $0 in
*/*) here=${0%/*} ;;
*) here=. ;;
esac
here=$(CDPATH='' cd -- "$here" && pwd)

needed='@CPU_FLAGS@'
flags=
if [ -r /proc/cpuinfo ]; then
    while read -r key _ rest; do
        case $key in
        flags | Features)
            flags=" $rest "
            break
            ;;
        esac
    done </proc/cpuinfo
fi
lacks=
if [ -n "$flags" ]; then
    for flag in $needed; do
        case $flags in
        *" $flag "*) ;;
        *) lacks="$lacks $flag" ;;
        esac
    done
fi
if [ -n "$lacks" ]; then
    echo "error: this bundle is compiled for another processor (@TARGET_CPU@), and this one lacks:$lacks" >&2
    echo "Make one for it, in a checkout: cargo xtask dist --target-cpu x86-64-v3" >&2
    exit 1
fi

BENCH_ROOT=$here
export BENCH_ROOT
exec "$here/bin/xtask" @VERB@ "$@"
