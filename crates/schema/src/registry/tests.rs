//! Tests of which registries load, and of the ids of their programs.

use super::*;

/// The root of this repository, and its registry of engines.
pub(crate) fn repository() -> (std::path::PathBuf, Registry) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let registry = Registry::load(&root.join("engines/engines.toml")).unwrap();
    (root, registry)
}

const ENGINE: &str = r#"
baseline = "a.cpu.f32"
reference = "a.cpu.f32"
cross_check = "a.cpu.f32"
[[engine]]
id = "a"
name = "A"
about = ""
homepage = ""
build = { kind = "cargo", package = "a-bench", bin = "a-bench" }
target = [
    { backend = "cpu", precision = "f32", weights = "w" },
    { backend = "cuda", precision = "f32", weights = "w" },
    { backend = "rocm", precision = "f32", weights = "w" },
]
"#;

fn load(text: &str) -> Result<Registry, DataError> {
    let dir = tempfile::tempdir().expect("the temporary directory can be written");
    let path = dir.path().join("engines.toml");
    std::fs::write(&path, text).expect("a new directory can be written");
    Registry::load(&path)
}

fn with(on: &str) -> Result<Registry, DataError> {
    load(&format!("{ENGINE}{on}"))
}

/// Load the registry with tables before its engine.
fn with_tables(tables: &str) -> Result<Registry, DataError> {
    load(&ENGINE.replace("[[engine]]", &format!("{tables}[[engine]]")))
}

#[test]
fn a_backend_may_have_a_program_of_its_own() {
    let gpu = r#"kind = "cargo", package = "a-bench", bin = "a-bench", features = ["gpu"], default_features = false, needs = ["cuda_toolkit", "cmake"]"#;
    let registry = with(&format!("on = {{ cuda = {{ {gpu} }} }}")).unwrap();
    let engine = &registry.engines[0];
    assert_eq!(engine.program_id("cpu"), "a");
    assert_eq!(engine.program_id("cuda"), "a-cuda");
    assert_eq!(engine.program_id("rocm"), "a");
    assert_eq!(engine.build.needs(), []);
    let Build::Cargo(how) = engine.build_for("cuda") else {
        panic!("a Cargo build was asked for")
    };
    assert_eq!(
        how.feature_arguments(),
        ["--no-default-features", "--features", "gpu"]
    );
    assert_eq!(how.needs, [Need::CudaToolkit, Need::Cmake]);
    assert_eq!(registry.wanted()[&Need::Cmake], ["A"]);
    let plain = Build::Cargo(CargoBuild::new("a-bench", "a-bench"));
    assert_eq!(engine.build, plain);

    // Backends with equal builds share a program, with each other or with the plain engine.
    let both = with(&format!(
        "on = {{ cuda = {{ {gpu} }}, rocm = {{ {gpu} }} }}"
    ))
    .unwrap();
    assert_eq!(both.engines[0].program_id("rocm"), "a-cuda");
    let plain = r#"[engine.on.cuda]
kind = "cargo"
package = "a-bench"
bin = "a-bench"
"#;
    assert_eq!(with(plain).unwrap().engines[0].program_id("cuda"), "a");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let fails = |on: &str, why: &str| {
        let error = with(on).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    let build = |more: &str| format!(r#"{{ kind = "cargo", package = "p", bin = "b"{more} }}"#);
    for (backend, more, why) in [
        ("cuda", r#", needs = ["cmkae"]"#, "cmkae"),
        ("cuda", ", feature = []", "feature"),
        ("tpu", "", "has no target there"),
    ] {
        fails(&format!("on = {{ {backend} = {} }}", build(more)), why);
    }
    let other = format!(
        r#"on = {{ cuda = {} }}
[[engine]]
id = "a-cuda"
name = "B"
about = ""
homepage = ""
build = {{ kind = "prebuilt", path = "b" }}
target = [{{ backend = "cpu", precision = "f32", weights = "w" }}]
"#,
        build("")
    );
    fails(&other, "both have a program \"a-cuda\"");
}

#[test]
fn a_program_may_take_libtorch_from_an_environment_of_its_own() {
    let on = |needs: &str, requirements: &str| {
        with(&format!(
            r#"[engine.on.cuda]
kind = "cargo"
package = "a-bench"
bin = "a-bench"
needs = [{needs}]
libtorch = {{ requirements = "{requirements}", environment = "venv-a" }}
[[engine]]
id = "b"
name = "B"
about = ""
homepage = ""
build = {{ kind = "python", script = "b.py", requirements = "b.lock", environment = "venv-a" }}
target = [{{ backend = "cpu", precision = "f32", weights = "w" }}]
"#
        ))
    };
    let registry = on("\"libtorch\"", "b.lock").expect("it is sound");
    let engine = &registry.engines[0];
    let own = engine.build_for("cuda");
    assert_eq!(own.environment(), Some(("venv-a", "b.lock")));
    assert_eq!(own.libtorch().unwrap().requirements, "b.lock");
    assert_eq!(engine.build.environment(), None);
    assert_eq!(engine.build.libtorch(), None);
    let python = &registry.engines[1].build;
    assert_eq!(python.environment(), Some(("venv-a", "b.lock")));
    assert_eq!(python.libtorch(), None);

    let why = on("\"libtorch\"", "a.lock").unwrap_err().to_string();
    assert!(why.contains("from a.lock and from b.lock: give"), "{why}");
    let why = on("", "b.lock").unwrap_err().to_string();
    assert!(why.contains("doesn't need libtorch"), "{why}");
}

#[test]
fn the_usual_environment_is_known_by_its_name_and_not_by_its_place() {
    let registry = load(ENGINE).expect("it is sound");
    assert_eq!(registry.python_requirements(), None);
    let python = |id: &str, more: &str| {
        format!(
            r#"[[engine]]
id = "{id}"
name = ""
about = ""
homepage = ""
build = {{ kind = "python", script = "{id}.py", requirements = "{id}.lock"{more} }}
target = [{{ backend = "cpu", precision = "f32", weights = "w" }}]
"#
        )
    };
    let own = python("b", r#", environment = "venv-b""#);
    let usual = python("c", "");
    for both in [format!("{own}{usual}"), format!("{usual}{own}")] {
        let registry = with(&both).expect("it is sound");
        assert_eq!(registry.python_requirements(), Some("c.lock"));
    }
}

#[test]
fn only_programs_have_a_time_they_compile() {
    let with = |id: &str| with_tables(&format!("[build_s]\n{id} = 30\n"));
    assert_eq!(with("a").expect("it is sound").build_s["a"], 30);
    let why = with("b").unwrap_err().to_string();
    assert!(why.contains("[build_s] has \"b\""), "{why}");
}

#[test]
fn the_baseline_of_a_run_is_its_nearest_kin() {
    let registry = load(ENGINE).expect("it is sound");
    let planned = |ids: &[&str]| -> Vec<Target> {
        let all = registry.targets();
        let other = |id: &str| Target {
            id: id.into(),
            ..all[0].clone()
        };
        ids.iter().map(|id| other(id)).collect()
    };
    let of = |ids: &[&str]| registry.baseline_of(&planned(ids)).to_owned();
    assert_eq!(of(&["b.cpu.f32", "a.cuda.f32", "a.cpu.f32"]), "a.cpu.f32");
    assert_eq!(
        of(&["b.cpu.f32", "a+opt.cuda.f32", "a.cuda.f32"]),
        "a.cuda.f32"
    );
    assert_eq!(of(&["b.cpu.f32", "a+opt.cuda.f32"]), "a.cpu.f32");
}

#[test]
fn our_own_engine_says_so_and_has_nobody_else_s_homepage() {
    let (_, registry) = repository();
    let ours: Vec<&Engine> = registry.engines.iter().filter(|e| e.ours).collect();
    let ids: Vec<&str> = ours.iter().map(|engine| engine.id.as_str()).collect();
    assert_eq!(ids, ["lmrs"]);
    assert!(ours.iter().all(|engine| !engine.homepage.contains("://")));
}

#[test]
fn a_backend_says_which_devices_it_runs_on() {
    let table = "[backend]\nrocm = [\"vulkan_device\", \"metal\"]\n";
    let registry = with_tables(table).unwrap();
    assert_eq!(
        registry.backends["rocm"],
        [Device::VulkanDevice, Device::Metal]
    );
    assert!(!registry.backends.contains_key("cpu"));
    let refused = |tables: &str| with_tables(tables).unwrap_err().to_string();
    assert!(refused(&table.replace("metal", "abacus")).contains("abacus"));
    let refused = refused(&table.replace("rocm", "abacus"));
    assert!(refused.contains("\"abacus\" needs a device"), "{refused}");
}

#[test]
fn only_a_device_has_limits_that_a_program_measures() {
    let limits = "[limits]\nrocm = { kind = \"prebuilt\", path = \"a\" }\n";
    let registry = with_tables(&format!("[backend]\nrocm = [\"metal\"]\n{limits}")).unwrap();
    assert!(registry.limits.contains_key("rocm"));
    let refused = with_tables(limits).unwrap_err().to_string();
    assert!(refused.contains("[limits] has \"rocm\""), "{refused}");
    // The real registry has such a program for the GPUs of its engines.
    let (_, registry) = repository();
    assert!(registry.limits.contains_key("cuda"));
}

#[test]
fn a_backend_s_name_says_which_device_computes() {
    let kinds = ["cpu", "flex", "cuda", "wgpu", "http"].map(DeviceKind::of_backend);
    let (processor, gpu) = (DeviceKind::Processor, DeviceKind::Gpu);
    assert_eq!(kinds, [processor, processor, gpu, gpu, DeviceKind::Unknown]);
    // In the real registry, backends that need a device, and no others, compute on a GPU.
    let (_, registry) = repository();
    for target in registry.targets() {
        let needs_device = registry.backends.contains_key(&target.backend);
        let is_gpu = DeviceKind::of_backend(&target.backend) == gpu;
        assert_eq!(needs_device, is_gpu, "{}", target.id);
    }
}

#[test]
fn every_program_of_an_engine_sees_its_variables_and_no_other_does() {
    let registry = with(
        r#"env = ["A_KEY"]
on = { cuda = { kind = "cargo", package = "a-bench", bin = "a-cuda" } }
direct = [{ weights = "w", build = { kind = "cargo", package = "a-bench", bin = "a-direct" } }]"#,
    );
    let registry = registry.unwrap();
    let engine = &registry.engines[0];
    let direct = engine.direct.iter().map(|direct| &direct.build);
    let programs: Vec<&Build> = engine.builds().chain(direct).collect();
    assert_eq!(programs.len(), 3);
    for how in programs {
        assert_eq!(registry.variables_for(how), ["A_KEY"]);
    }
    let other = Build::Prebuilt {
        path: "b".into(),
        needs: vec![],
        libtorch: None,
    };
    assert!(registry.variables_for(&other).is_empty());
}

#[test]
fn a_target_runs_its_engines_architectures_unless_it_names_its_own() {
    let registry = load(ENGINE).expect("it is sound");
    let cpu = &registry.targets()[0];
    assert_eq!(registry.architectures_of(cpu), ["llama"]);
    assert!(registry.runs(cpu, "llama") && !registry.runs(cpu, "phi3"));

    let own = r#"precision = "f32", weights = "w", architectures = ["phi3"] }"#;
    let text = ENGINE.replacen(r#"precision = "f32", weights = "w" }"#, own, 1);
    let text = format!("{text}architectures = [\"llama\", \"qwen3\"]\n");
    let registry = load(&text).expect("it is sound");
    let [cpu, cuda, _]: [Target; 3] = registry.targets().try_into().expect("there are three");
    assert_eq!(registry.architectures_of(&cpu), ["phi3"]);
    assert!(registry.runs(&cuda, "qwen3") && !registry.runs(&cuda, "phi3"));
    assert_eq!(registry.architectures(), ["llama", "qwen3", "phi3"]);
    let stranger = Target {
        engine: "b".into(),
        ..cpu
    };
    assert!(registry.architectures_of(&stranger).is_empty());

    let any = load(&format!("{ENGINE}architectures = [\"*\"]\n")).expect("it is sound");
    assert!(any.runs(&any.targets()[0], "whatever"));
    assert!(any.architectures().is_empty());
}

#[test]
fn a_list_of_architectures_that_cannot_be_meant_is_refused() {
    for (list, why) in [
        ("[]", "no architectures"),
        ("[\"llama\", \"llama\"]", "twice"),
        ("[\"../llama\"]", "../llama"),
    ] {
        let text = format!("{ENGINE}architectures = {list}\n");
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_target_has_the_format_of_keys_and_values_that_it_declares() {
    let plain = r#"precision = "f32", weights = "w" }"#;
    let with = |kv: &str| {
        let own = format!(r#"precision = "f32", weights = "w", kv = "{kv}" }}"#);
        load(&ENGINE.replacen(plain, &own, 1))
    };
    let targets = with("f16").expect("it is sound").targets();
    let declared: Vec<Option<KvFormat>> = targets.iter().map(|target| target.kv).collect();
    assert_eq!(declared, [Some(KvFormat::F16), None, None]);
    assert!(with("f8").is_err());
    // An older plan has no such field, and its JSON must stay the same to the byte.
    let plan = serde_json::to_string(&targets[1]).expect("it is JSON");
    assert!(!plan.contains("kv"), "{plan}");
    let read: Target = serde_json::from_str(&plan).expect("it is a target");
    assert_eq!(read, targets[1]);
}
