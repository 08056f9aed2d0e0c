//! The flake, evaluated as it is, against a stand-in for nixpkgs: that its shells say
//! what they should, and that mistakes in it are seen. No network, and nothing is built:
//! that nixpkgs really has what the stand-in has is for `nix flake check` where there is
//! a network.

mod driver;
mod mistakes;
mod world;

use world::{Copy, no_nix};

#[test]
fn the_flake_is_right() {
    if no_nix() {
        return;
    }
    if let Err(why) = Copy::of_checkout().check() {
        panic!("{why}");
    }
}
