# The Python of the engines: a virtual environment like the one that xtask makes elsewhere, of the
# very wheels that requirements.lock names, so that the baseline is the same inside and outside.
{
  lib,
  stdenv,
  fetchPypi,
  autoPatchelfHook,
  zlib,
  python,
  wheels,
  requirements,
  cuda,
  torch,
}:
let
  # name-version-python-abi-platform.whl
  fetch =
    { file, sha256 }:
    let
      part = builtins.elemAt (builtins.match "([^-]+)-([^-]+)-([^-]+)-([^-]+)-([^-]+)[.]whl" file);
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
in
stdenv.mkDerivation {
  pname = "bench-python";
  version = "${python.version}-torch-${torch}";
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
    ${lib.concatStrings (map fetch wheels)}
    ${python.interpreter} -m venv --without-pip $out
    ${python.interpreter} -m pip --python $out/bin/python install \
      --no-index --no-deps --no-cache-dir wheels/*.whl
    # xtask compares this with the checkout's lock.
    echo -n ${builtins.hashFile "sha256" requirements} > $out/requirements.sha256
    runHook postInstall
  '';
  doInstallCheck = true;
  installCheckPhase = ''
    export HOME=$TMPDIR
    $out/bin/python -c 'import torch, transformers
    assert torch.__version__.split("+")[0] == "${torch}", torch.__version__
    assert torch.version.cuda == "${cuda}", torch.version.cuda'
  '';
  meta.platforms = [ "x86_64-linux" ];
}
