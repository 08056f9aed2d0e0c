# The pinned environment of the benchmark: two shells, and what they are made of. Versions stand in
# nix/versions.toml, rust-toolchain.toml and each engine's requirements.lock, never here.
{
  description = "Benchmark of Rust LLM inference engines";

  nixConfig = {
    # CUDA is unfree, so nixpkgs' own cache has none of it.
    extra-substituters = [ "https://cache.nixos-cuda.org" ];
    extra-trusted-public-keys = [
      "cache.nixos-cuda.org:74DUi4Ye579gUqzH4ziL9IyiJBlDpMRn9MBN8oNan9M="
    ];
  };

  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";
    rust-overlay = {
      url = "github:oxalica/rust-overlay";
      inputs.nixpkgs.follows = "nixpkgs";
    };
  };

  outputs =
    {
      self,
      nixpkgs,
      rust-overlay,
    }:
    let
      # libtorch and the wheels are built for this one.
      system = "x86_64-linux";
      versions = fromTOML (builtins.readFile ./nix/versions.toml);
      pkgsFor =
        config:
        import nixpkgs {
          inherit system config;
          overlays = [ rust-overlay.overlays.default ];
        };
      pkgs = pkgsFor { };
      # Only what is CUDA's comes from here: the rest of nixpkgs stays free, and cached.
      pkgsCuda = pkgsFor {
        allowUnfree = true;
        cudaSupport = true;
        cudaCapabilities = [ versions.compute_capability ];
      };
      toolchain = pkgs.rust-bin.fromRustupToolchainFile ./rust-toolchain.toml;
      cuda = pkgsCuda.callPackage ./nix/cuda.nix { release = versions.cuda; };
      libtorch = pkgsCuda.callPackage ./nix/libtorch.nix {
        inherit (versions.libtorch) version hash;
        inherit (versions) cuda;
      };
      # The Python environments of the engines, one for each file in nix/wheels: also as packages.
      pythons = builtins.listToAttrs (
        map (
          file:
          let
            name = builtins.replaceStrings [ ".toml" ] [ "" ] file;
            said = fromTOML (builtins.readFile (./nix/wheels + "/${file}"));
          in
          {
            name = "python-${name}";
            value = pkgs.callPackage ./nix/python.nix {
              inherit name;
              inherit (said) wheel imports requirements_sha256;
              python = pkgs."python${builtins.replaceStrings [ "." ] [ "" ] versions.python}";
              requirements = ./. + "/${said.requirements}";
              check = if name == "pytorch" then isBesideLibtorch else "";
            };
          }
        ) (builtins.attrNames (builtins.readDir ./nix/wheels))
      );
      # The baseline's PyTorch is the one whose C++ interface and CUDA programs in Rust get.
      isBesideLibtorch = ''
        assert torch.__version__.split("+")[0] == "${versions.libtorch.version}", torch.__version__
        assert torch.version.cuda == "${versions.cuda}", torch.version.cuda'';
      shell = import ./nix/shell.nix { inherit pkgs toolchain pythons; };
    in
    {
      devShells.${system} = {
        default = shell.cuda {
          inherit cuda libtorch;
          capability = versions.compute_capability;
        };
        cpu = shell.cpu;
      };

      packages.${system} = pythons // {
        inherit libtorch;
        cuda = cuda.root;
        # `nix build .#container && ./result | docker load`: the default shell as an image. The
        # checkout is mounted into it; nothing of it is inside.
        container = pkgs.dockerTools.streamNixShellImage {
          name = "llm-engine-bench";
          tag = "cuda-${versions.cuda}";
          drv = self.devShells.${system}.default;
        };
      };

      # The default shell's own command, for those who don't want to enter it.
      apps.${system} = {
        default = self.apps.${system}.bench-all;
        bench-all = {
          type = "app";
          program = "${
            pkgs.writeShellApplication {
              name = "bench-all";
              text = ''
                if ! [ -e xtask/Cargo.toml ]; then
                  echo "bench-all: run this in a checkout of the repository" >&2
                  exit 1
                fi
                exec nix --extra-experimental-features 'nix-command flakes' develop ${self} \
                  --command cargo xtask bench-all "$@"
              '';
            }
          }/bin/bench-all";
        };
      };

      checks.${system} = pythons // {
        inherit libtorch;
        toolchain = pkgs.runCommand "toolchain" { nativeBuildInputs = [ toolchain ]; } ''
          channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' ${./rust-toolchain.toml})
          rustc --version | grep --fixed-strings "rustc $channel " | tee $out
        '';
        format =
          pkgs.runCommand "format"
            {
              nativeBuildInputs = [
                pkgs.nixfmt
                pkgs.deadnix
                pkgs.shellcheck
              ];
            }
            ''
              nixfmt --check ${./flake.nix} ${./nix}/*.nix
              deadnix --fail ${./flake.nix} ${./nix}/*.nix
              shellcheck ${./nix/driver.sh}
              touch $out
            '';
      };

      formatter.${system} = pkgs.nixfmt-tree;
    };
}
