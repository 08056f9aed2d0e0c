//! Tests of tracing from end to end without a GPU: the real tracer in the fake engine, with a
//! scripted CUPTI and a preloaded stand-in for the driver.

use crate::checkout::{Checkout, FAKE, library, says};
use crate::resume::measured;
use harness::engine::Program;
use harness::machine::Gpu;
use harness::programs::Programs;
use harness::prompts::Prompts;
use harness::run::{Stage, trace};
use schema::kernels::{KernelTrace, TracedLaunch};
use schema::registry::Target;
use schema::run_files::RunFiles;
use stats::kernels::name::Class;
use std::path::Path;
use watch::Control;

#[test]
fn a_launch_is_traced_and_says_what_ran_for_each_token() {
    let (checkout, run) = measured();
    let plan = &run.header.plan;
    let repo = checkout.repo();
    let run_dir = checkout.path("runs").join(&run.header.id);
    nothing_is_traced_without_cuda(&checkout, &run_dir);
    let prompts = Prompts::new(&repo.model_dir(&plan.model), plan.seed_of_prompts());
    let prompts = prompts.expect("a tokenizer");
    let stage = Stage {
        plan,
        run_dir: &run_dir,
        model_dir: &repo.model_dir(&plan.model),
        programs: &Programs::default(),
        prompts: &prompts,
        verify: &run.verify,
        control: &Control::default(),
    };
    let real = Checkout::real_repo();
    let tracer = provision::build::tracer(&real).expect("the tracer can be built");
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let cupti = library(dir.path(), "../crates/tracer/tests/fake_cupti.c");
    let driver = library(dir.path(), "tests/harness/driver.c");
    let argv = vec![FAKE.display().to_string()];
    let fake = Program::new(argv, vec![FAKE.clone()], &real.root, &real.build_dir);
    let target: &Target = &plan.targets[0];
    let traced = |environment: &[(&str, &str)]| {
        let mut program: Program = fake.clone();
        let own = environment.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        program.env = own.collect();
        let result = trace::of_target(&stage, target, &program, &tracer);
        result.expect("the run's directory can be written")
    };
    let driver = driver.display().to_string();
    let cupti = cupti.display().to_string();

    let found = traced(&[
        ("LD_PRELOAD", &driver),
        ("BENCH_CUPTI_LIBRARY", &cupti),
        ("FAKE_DECODE_US", "5000"),
    ])
    .expect("the trace can be analysed");
    assert!(!found.synthetic && found.requests == 3);
    assert_eq!((found.prefill.tokens, found.decode.tokens), (3, 3 * 5));
    assert!(found.decode.kernels >= 15, "{:?}", found.decode);
    let busy = found.decode.busy_fraction().expect("it decoded");
    assert!(busy > 0.0 && busy < 1.0, "{busy}");
    assert!(found.share(Class::Matmul).is_some_and(|share| share > 0.0));

    // A failure is recorded in a new file, and the old record stays as it was.
    let why = traced(&[
        ("LD_PRELOAD", &driver),
        ("BENCH_CUPTI_LIBRARY", "/nowhere/libcupti.so"),
    ])
    .expect_err("there is no CUPTI");
    assert!(why.starts_with("libcupti: "), "{why}");
    says(&why, &["/nowhere"]);
    let why = traced(&[]).expect_err("nothing loads the tracer");
    says(&why, &["never started CUDA"]);
    let traces = run_dir.join("kernels").join(&target.id);
    let first = traces.join("single_request.p10.trace.jsonl");
    let whole = std::fs::read_to_string(&first).expect("it stays");
    let whole = KernelTrace::parse(&first, &whole).expect("it is whole");
    assert!(whole.end.is_some());
    assert!(traces.join("single_request.p10.a1.trace.jsonl").is_file());
    let newest = TracedLaunch::load_all(&RunFiles::open(&run_dir).expect("it is a run"))
        .expect("they can be listed");
    assert_eq!(newest[0].log.launch.attempt, 2);
    // The samples are unchanged.
    let again = checkout.latest().expect("the run is there");
    assert_eq!(again.launches, run.launches);
}

/// Check that the verb says why it traces no target of a run, and writes nothing.
fn nothing_is_traced_without_cuda(checkout: &Checkout, run_dir: &Path) {
    let said = checkout.ended(&["trace"], &[], 0);
    let word = match Gpu::read().devices.is_empty() {
        true => "No kernels traced: ",
        false => "no target of this run is on CUDA",
    };
    says(&said, &[word]);
    assert!(!run_dir.join("kernels").exists());
}
