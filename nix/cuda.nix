# One release of CUDA from nixpkgs: its parts, and all of them under one roof, as build scripts
# want it.
{
  pkgs,
  lib,
  symlinkJoin,
  release,
}:
let
  set = pkgs."cudaPackages_${lib.replaceStrings [ "." ] [ "_" ] release}";
  parts = [
    set.cuda_nvcc
    set.cuda_cudart
    set.cuda_cccl
    set.cuda_nvrtc
    set.cuda_cupti
    set.libcublas
    set.libcurand
    set.libcusparse
    set.libcusolver
    set.cudnn
  ];
in
{
  inherit (set) backendStdenv;
  # Every output, the static libraries and the driver's stub among them.
  root = symlinkJoin {
    name = "cuda-${release}";
    paths = lib.concatMap (part: map (output: part.${output}) part.outputs) parts;
    postBuild = "ln -s lib $out/lib64";
  };
}
