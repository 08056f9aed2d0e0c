# As much of nixpkgs' lib as the flake uses.
rec {
  inherit (builtins) concatMap concatStringsSep replaceStrings;
  concatStrings = builtins.concatStringsSep "";
  getOutput = output: package: package.${output} or package;
  getLib = getOutput "lib";
  licenses.unfree = {
    free = false;
  };
  makeLibraryPath =
    packages: builtins.concatStringsSep ":" (map (package: "${getLib package}/lib") packages);
}
