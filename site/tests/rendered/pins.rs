//! What a run was pinned to stands on its page, beside the command that gets it again;
//! of a record that says nothing of it, as dashes.

use crate::common::{World, run, world};
use schema::pins::{Pin, Pins};

fn run_page(world: &World) -> String {
    let pages = site::render(&world.input()).expect("renders");
    let page = pages[&format!("run/{}.html", world.runs[0].header.id)].clone();
    String::from_utf8(page).expect("UTF-8")
}

const CHECKOUT: &str = "git checkout 0123456789abcdef0123456789abcdef01234567";

#[test]
fn a_run_in_the_flakes_shell_says_how_to_enter_it() {
    let mut world = world(vec![run("cpu", 5, 22)]);
    let provenance = &mut world.runs[0].header.provenance;
    provenance.pins = Pins {
        nix_shell: Some("default".into()),
        nix_shell_pure: Some(false),
        libtorch: Some(Pin {
            version: Some("2.9.0+cu128".into()),
            from: "/nix/store/x-libtorch".into(),
            sha256: None,
        }),
        ..Pins::default()
    };
    provenance.facts.insert("driver".into(), "580.1".into());
    let hash = "fe".repeat(32);
    provenance
        .lockfiles
        .insert("flake.lock".into(), hash.clone());
    let page = run_page(&world);
    // The template engine escapes slashes and ampersands.
    let page = page.replace("&amp;", "&").replace("&#x2f;", "/");
    for said in [
        &format!("{CHECKOUT} && nix develop"),
        "2.9.0+cu128 from /nix/store/x-libtorch",
        "580.1",
        &hash,
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn an_older_record_has_every_item_all_the_same() {
    let page = run_page(&world(vec![run("cpu", 5, 22)])).replace("&amp;", "&");
    assert!(page.contains(&format!("{CHECKOUT} && cargo xtask build")));
    for item in ["nix shell", "libtorch", "cuda toolkit", "driver"] {
        let row = format!("<th scope=\"row\">{item}</th>");
        assert!(page.contains(&row), "{item}");
    }
}
