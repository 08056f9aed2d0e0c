# A stand-in for nixpkgs: the names that the flake uses, as derivations that nothing builds. It
# knows no other name, refuses unfree packages as nixpkgs does, and has CUDA sets that differ.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  lib = import ./lib.nix;
  # What makes a derivation from attributes, in words of mkDerivation's.
  package =
    {
      pname ? null,
      name ? null,
      version ? "0",
      outputs ? [ "out" ],
      meta ? { },
      passthru ? { },
      ...
    }@attributes:
    let
      fullName = if name == null then "${pname}-${version}" else name;
      free = meta.license.free or true;
      variables = removeAttrs attributes [
        "meta"
        "passthru"
      ];
      derived = derivation (
        {
          builder = "/bin/sh";
          args = [
            "-c"
            "exit 1"
          ];
        }
        // variables
        // {
          inherit system outputs;
          name = fullName;
        }
      );
    in
    if !free && !(config.allowUnfree or false) then
      throw "Package '${fullName}' has an unfree license, refusing to evaluate."
    else
      derived // { inherit meta outputs version; } // passthru;
  free =
    names:
    builtins.listToAttrs (
      map (name: {
        inherit name;
        value = package { pname = name; };
      }) names
    );
  stdenv = name: {
    inherit name;
    mkDerivation = attributes: package ({ stdenv = name; } // attributes);
    cc.cc = package {
      pname = "gcc";
      outputs = [
        "out"
        "lib"
      ];
    };
  };
  makeShell = stdenv: {
    __functor =
      _: attributes:
      stdenv.mkDerivation (
        removeAttrs attributes [ "packages" ]
        // {
          name = "nix-shell";
          nativeBuildInputs = attributes.packages;
        }
      );
    override = changed: makeShell changed.stdenv;
  };
  cudaSet =
    release:
    let
      part = outputs: pname: {
        name = pname;
        value = package {
          inherit pname outputs;
          version = "${release}.0";
          meta.license = lib.licenses.unfree;
        };
      };
      libraryOutputs = [
        "out"
        "dev"
        "lib"
        "static"
        "stubs"
      ];
    in
    builtins.listToAttrs (
      map (part [ "out" ]) [
        "cuda_nvcc"
        "cuda_cccl"
      ]
      ++ map (part libraryOutputs) [
        "cuda_cudart"
        "cuda_nvrtc"
        "cuda_cupti"
        "libcublas"
        "libcurand"
        "libcusparse"
        "libcusolver"
        "cudnn"
      ]
    )
    // {
      backendStdenv = stdenv "cuda-${release}-stdenv";
    };
  interpreter =
    release:
    package {
      pname = "python3";
      version = "${release}.1";
      passthru = {
        interpreter = "/python${release}";
        pkgs = free [ "pip" ];
      };
    };
  packages =
    free [
      "actionlint"
      "autoPatchelfHook"
      "cacert"
      "cargo-deny"
      "chromium"
      "clang"
      "cmake"
      "deadnix"
      "dejavu_fonts"
      "git"
      "libclang"
      "nixfmt"
      "nixfmt-tree"
      "nodejs"
      "openssl"
      "pkg-config"
      "shellcheck"
      "unzip"
      "vulkan-loader"
      "zizmor"
      "zlib"
    ]
    // {
      inherit lib;
      pkgs = final;
      stdenv = stdenv "stdenv";
      mkShell = makeShell (stdenv "stdenv");
      rustPlatform = free [ "bindgenHook" ];
      cudaPackages_12_8 = cudaSet "12.8";
      cudaPackages_12_9 = cudaSet "12.9";
      cudaPackages_13_0 = cudaSet "13.0";
      python312 = interpreter "3.12";
      python313 = interpreter "3.13";
      fetchurl =
        {
          name,
          url,
          hash,
        }:
        package {
          inherit name url;
          outputHash = hash;
          outputHashAlgo = null;
          outputHashMode = "flat";
        };
      fetchPypi =
        {
          pname,
          version,
          format,
          python,
          dist,
          abi,
          platform,
          sha256,
        }:
        assert format == "wheel" && dist == python;
        package {
          name = "${pname}-${version}-${python}-${abi}-${platform}.whl";
          outputHash = sha256;
          outputHashAlgo = "sha256";
          outputHashMode = "flat";
        };
      symlinkJoin =
        {
          name,
          paths,
          postBuild,
        }:
        package { inherit name paths postBuild; };
      linkFarm =
        name: entries:
        package {
          inherit name;
          paths = map (entry: entry.path) entries;
        };
      makeFontsConf =
        { fontDirectories }:
        package {
          name = "fonts.conf";
          inherit fontDirectories;
        };
      runCommand =
        name: variables: script:
        package (variables // { inherit name script; });
      writeShellApplication = { name, text }: package { inherit name text; };
      dockerTools.streamNixShellImage =
        {
          name,
          tag,
          drv,
        }:
        package {
          name = "stream-${name}";
          inherit tag;
          shell = drv;
        };
    };
  overlaid = builtins.foldl' (before: overlay: before // overlay final before) packages overlays;
  final = overlaid // {
    callPackage =
      file: given:
      let
        function = import file;
        fill =
          name: optional:
          given.${name} or final.${name}
            or (if optional then null else throw "the stub of nixpkgs has no '${name}'");
      in
      function (builtins.mapAttrs fill (builtins.functionArgs function));
  };
in
final
