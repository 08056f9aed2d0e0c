{
  description = "A stand-in for nixpkgs, to evaluate the real flake without a network";
  outputs = _: {
    lib = import ./lib.nix;
  };
}
