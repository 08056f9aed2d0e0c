# The two shells. `BENCH_NIX_SHELL` and `BENCH_VENV` tell xtask that everything is here and that it
# has to provide nothing.
{
  pkgs,
  toolchain,
  pythons,
}:
let
  inherit (pkgs) lib;
  # Clang on PATH and nothing more: as a package its setup hook would make it everybody's CC.
  clang = pkgs.linkFarm "clang-on-path" [
    {
      name = "bin/clang";
      path = "${pkgs.clang}/bin/clang";
    }
    {
      name = "bin/clang++";
      path = "${pkgs.clang}/bin/clang++";
    }
  ];
  packages = [
    toolchain
    pythons.python-pytorch
    clang
    pkgs.cacert
    pkgs.cmake
    pkgs.git
    pkgs.openssl
    pkgs.pkg-config
    pkgs.rustPlatform.bindgenHook
  ];
  # What `cargo xtask test` runs beside Rust's own tools.
  tests = [
    pkgs.actionlint
    pkgs.cargo-deny
    pkgs.chromium
    pkgs.deadnix
    pkgs.nixfmt
    pkgs.nodejs
    pkgs.shellcheck
    pkgs.zizmor
  ];
  common = {
    packages = packages ++ tests;
    # All of them, though they are most of what the shell downloads: who enters it expects that it
    # brings what every engine needs, and not that a part is missing when a run comes to it.
    BENCH_VENV = lib.concatStringsSep ":" (builtins.attrValues pythons);
    FONTCONFIG_FILE = pkgs.makeFontsConf { fontDirectories = [ pkgs.dejavu_fonts ]; };
    LIBCLANG_PATH = "${lib.getLib pkgs.libclang}/lib";
    # Burn's Vulkan backend opens it by name. libtorch and CUDA are not on this path: xtask puts
    # them before it for the programs that want them, and no other may load them.
    LD_LIBRARY_PATH = lib.makeLibraryPath [ pkgs.vulkan-loader ];
    # Engines in C are to have this CPU's instructions, like those in Rust, and no checks at run
    # time that a build outside would not have. Without the first they are 3 to 4 times slower.
    NIX_ENFORCE_NO_NATIVE = "0";
    hardeningDisable = [ "all" ];
  };
in
{
  cpu = pkgs.mkShell (common // { BENCH_NIX_SHELL = "cpu"; });

  cuda =
    {
      cuda,
      libtorch,
      capability,
    }:
    # nvcc takes only some versions of GCC.
    (pkgs.mkShell.override { stdenv = cuda.backendStdenv; }) (
      common
      // {
        BENCH_NIX_SHELL = "default";
        packages = common.packages ++ [ cuda.root ];
        CUDA_HOME = "${cuda.root}";
        CUDA_PATH = "${cuda.root}";
        CUDA_ROOT = "${cuda.root}";
        CUDA_TOOLKIT_ROOT_DIR = "${cuda.root}";
        CUDA_COMPUTE_CAP = lib.replaceStrings [ "." ] [ "" ] capability;
        NVCC_APPEND_FLAGS = "-I${cuda.root}/include";
        LIBTORCH = "${libtorch}";
        # The stub of the driver serves linking alone, and comes last.
        LIBRARY_PATH = "${cuda.root}/lib:${cuda.root}/lib/stubs";
        shellHook = ''
          source ${./driver.sh}
          bench_use_driver
        '';
      }
    );
}
