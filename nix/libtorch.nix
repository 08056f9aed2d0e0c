# libtorch as PyTorch's makers build it, for one release of CUDA. nixpkgs' own takes another release
# where CUDA is on, and drops `build-version`, by which `tch` sees that it has the right one.
{
  lib,
  stdenv,
  fetchurl,
  unzip,
  autoPatchelfHook,
  zlib,
  version,
  hash,
  cuda,
}:
let
  build = "cu${lib.replaceStrings [ "." ] [ "" ] cuda}";
in
stdenv.mkDerivation {
  pname = "libtorch";
  version = "${version}-${build}";
  src = fetchurl {
    # Its own name has a character that the store doesn't take.
    name = "libtorch-${version}-${build}.zip";
    url = "https://download.pytorch.org/libtorch/${build}/libtorch-shared-with-deps-${version}%2B${build}.zip";
    inherit hash;
  };
  nativeBuildInputs = [
    unzip
    autoPatchelfHook
  ];
  buildInputs = [
    stdenv.cc.cc.lib
    zlib
  ];
  # The driver is the machine's: the shell finds it. What else is missing belongs to
  # transports between machines.
  autoPatchelfIgnoreMissingDeps = [ "*" ];
  dontStrip = true;
  installPhase = ''
    runHook preInstall
    mkdir $out
    cp -r include lib share build-version build-hash $out/
    runHook postInstall
  '';
  doInstallCheck = true;
  installCheckPhase = ''
    test "$(cat $out/build-version)" = ${version}+${build}
    test -e $out/lib/libtorch_cuda.so
  '';
  meta = {
    description = "C++ interface of PyTorch";
    homepage = "https://pytorch.org/";
    # Its CUDA libraries are NVIDIA's.
    license = lib.licenses.unfree;
    platforms = [ "x86_64-linux" ];
  };
}
