# A Python environment of the engines: a virtual environment like those that xtask makes elsewhere,
# of the very wheels that a requirements.lock names, so that it is the same inside and outside.
{
  lib,
  stdenv,
  fetchPypi,
  autoPatchelfHook,
  zlib,
  python,
  # Of the file in nix/wheels: its name, and what it says.
  name,
  wheel,
  imports,
  requirements_sha256,
  # The lock that the wheels are of.
  requirements,
  # Further lines of Python that check the environment.
  check ? "",
}:
let
  # name-version-python-abi-platform.whl, where the version may end in a build.
  parts = file: builtins.elemAt (builtins.match "([^-]+)-(.+)-([^-]+)-([^-]+)-([^-]+)[.]whl" file);
  fetch =
    { file, sha256 }:
    let
      part = parts file;
    in
    "ln -s ${
      fetchPypi {
        format = "wheel";
        pname = part 0;
        version = part 1;
        python = part 2;
        dist = part 2;
        abi = part 3;
        platform = part 4;
        inherit sha256;
      }
    } wheels/${file}\n";
  # The name of an environment, which records give, says which libtorch is in it.
  torch = builtins.filter ({ file, ... }: parts file 0 == "torch") wheel;
  stamp = builtins.hashFile "sha256" requirements;
in
assert stamp == requirements_sha256 || throw "nix/wheels/${name}.toml is old: run nix/wheels.py";
stdenv.mkDerivation {
  pname = "bench-python-${name}";
  version = builtins.concatStringsSep "-torch-" (
    [ python.version ] ++ map ({ file, ... }: parts file 1) torch
  );
  nativeBuildInputs = [
    autoPatchelfHook
    python
    python.pkgs.pip
  ];
  buildInputs = [
    stdenv.cc.cc.lib
    zlib
  ];
  dontUnpack = true;
  dontStrip = true;
  # The driver is the machine's: the shell finds it. What else is missing belongs to
  # transports between machines.
  autoPatchelfIgnoreMissingDeps = [ "*" ];
  installPhase = ''
    runHook preInstall
    mkdir wheels
    ${lib.concatStrings (map fetch wheel)}
    ${python.interpreter} -m venv --without-pip $out
    ${python.interpreter} -m pip --python $out/bin/python install \
      --no-index --no-deps --no-cache-dir wheels/*.whl
    # By this xtask finds the environment of a lock of the checkout.
    echo -n ${stamp} > $out/requirements.sha256
    runHook postInstall
  '';
  doInstallCheck = true;
  installCheckPhase = ''
    export HOME=$TMPDIR
    $out/bin/python -c 'import ${builtins.concatStringsSep ", " imports}
    ${check}'
  '';
  meta.platforms = [ "x86_64-linux" ];
}
