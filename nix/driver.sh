# shellcheck shell=bash
# NVIDIA's driver is the machine's, never the flake's: this finds it for the CUDA shell, which
# sources it. NixOS keeps it in a place of its own. Elsewhere it lies among the host's libraries,
# whose C library would break programs from the Nix store: so only its own files are linked into a
# private directory, and that one is searched.

# bench_use_driver [ROOT [PRIVATE]]: put the driver first on LD_LIBRARY_PATH. ROOT stands before
# every path looked at, for tests. Without a driver nothing changes.
bench_use_driver() {
    local root="${1-}"
    local private="${2:-${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/llm-engine-bench/driver}"
    local driver="$root/run/opengl-driver/lib" name place
    if [ ! -e "$driver/libcuda.so.1" ]; then
        driver="$private"
        for name in libcuda.so.1 libnvidia-ml.so.1 libnvidia-ptxjitcompiler.so.1; do
            rm -f "$driver/$name"
            # Debian; Fedora and containers; Arch; Windows' Linux; Kubernetes.
            for place in /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib /usr/lib/wsl/lib /usr/local/nvidia/lib64; do
                if [ -e "$root$place/$name" ]; then
                    mkdir -p "$driver"
                    ln -s "$root$place/$name" "$driver/$name"
                    break
                fi
            done
        done
        [ -e "$driver/libcuda.so.1" ] || return 0
    fi
    export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    # Triton asks ldconfig otherwise, which knows nothing of either place.
    export TRITON_LIBCUDA_PATH="$driver"
}
