//! Tests of models that the user brings, from a repository of a hub on loopback and from a
//! directory: what is kept of them, and how bad ones are refused. No network.

use crate::hub::{COMMIT, FakeHub};
use crate::world::{inode, listing, options, says};
use base::names::Refused;
use base::repo::Repo;
use base::shelf::{INDEX, WEIGHTS};
use models::{ModelFile, ModelSpec, Origin};
use provision::fetch::brought::{Places, Resolved, look};
use provision::fetch::{How, Options, Progress, fetch, keep, make};
use schema::model::{Models, Source};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

const SHARDS: [&str; 2] = [
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
];

/// A small model in two shards, made once for all tests.
fn model() -> &'static Path {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let spec = ModelSpec {
            num_layers: 1,
            shards: 2,
            files: vec![ModelFile::Safetensors],
            ..ModelSpec::tiny_stories()
        };
        models::generate(&spec, Origin::Seed, dir.path(), &mut |_, _| true).unwrap();
        dir
    });
    dir.path()
}

/// A small model in two shards, a hub that has it, and a checkout without models to bring it into.
struct Scene {
    dir: TempDir,
    repo: Repo,
    hub: FakeHub,
    options: Options,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let original = dir.path().join("My Model");
        std::fs::create_dir(&original).unwrap();
        for entry in std::fs::read_dir(model()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), original.join(entry.file_name())).unwrap();
        }
        let small = ["config.json", "tokenizer.json", "tokenizer_config.json"];
        let names = [&small[..], &[INDEX], &SHARDS].concat();
        let hub = FakeHub::serving(&original, &names);
        let options = options(&hub, dir.path());
        std::fs::create_dir(dir.path().join("data")).unwrap();
        let none = Models { models: Vec::new() };
        let repo = listing(dir.path(), &none);
        Self {
            dir,
            repo,
            hub,
            options,
        }
    }

    fn models_dir(&self) -> &Path {
        &self.repo.models_dir
    }

    fn original(&self) -> PathBuf {
        self.dir.path().join("My Model")
    }

    fn models(&self) -> Models {
        self.repo.models().unwrap()
    }

    fn look(&self, name: &str) -> anyhow::Result<Resolved> {
        let places = Places {
            models_dir: self.models_dir(),
            downloads_to: None,
        };
        look(
            name,
            &self.models(),
            &places,
            &self.options,
            &mut Progress::silent(),
        )
    }

    /// Look at a model and keep it; return its id.
    fn bring(&self, name: &str) -> String {
        match self.look(name).unwrap() {
            Resolved::Id(id) => id,
            Resolved::New(looked) => {
                keep(self.models_dir(), &looked.brought, &looked.hashes).unwrap();
                looked.brought.model.id
            }
        }
    }

    fn fetch(&self, id: &str) -> anyhow::Result<Vec<provision::fetch::FetchedFile>> {
        let ids = [id.to_owned()];
        fetch(&self.repo, &ids, &self.options, &mut Progress::silent())
    }

    /// Check that a bad model is refused in one line with these parts, that nothing of it is kept,
    /// and that no weights were asked for.
    #[track_caller]
    fn refuses(&self, name: &str, parts: &[&str]) {
        let error = self.look(name).unwrap_err();
        assert!(error.is::<Refused>(), "{error:?}");
        let text = format!("{error:#}");
        assert!(!text.contains('\n'), "{text}");
        says(&text, parts);
        assert!(!self.models_dir().exists(), "something was kept");
        let asked = self.hub.requests();
        assert!(
            !asked.iter().any(|r| r.path.ends_with(".safetensors")),
            "weights were asked for: {asked:?}"
        );
    }

    /// Check that a model which was fetched before is still there whole.
    #[track_caller]
    fn has_all_of(&self, id: &str) {
        let fetched = self.fetch(id).unwrap();
        assert!(fetched.iter().all(|file| file.how == How::Present));
    }
}

#[test]
fn a_repository_is_pinned_kept_and_fetched_with_its_own_lock() {
    let scene = Scene::new();
    let id = scene.bring("hf:owner/repo");
    assert_eq!(id, "repo-01234567");
    let models = scene.models();
    let model = models.get(&id).unwrap();
    assert_eq!(model.name, "owner/repo");
    assert!(model.parameters > 500_000 && model.size_mb > 0);
    let Source::Hub { files } = &model.source else {
        panic!("{model:?}");
    };
    assert!(files.iter().all(|file| file.revision == COMMIT));
    let has = |shard: &&str| files.iter().any(|file| file.name == *shard);
    assert!(SHARDS.iter().all(has));

    let fetched = scene.fetch(&id).unwrap();
    assert_eq!(fetched.len(), 6);
    let cached: Vec<&str> = fetched
        .iter()
        .filter(|file| file.how == How::Cached)
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(
        cached,
        ["config.json", "tokenizer.json", INDEX],
        "read before"
    );
    let lock = std::fs::read_to_string(scene.models_dir().join(&id).join("model.lock")).unwrap();
    assert!(SHARDS.iter().all(|shard| lock.contains(shard)), "{lock}");
    let listed = scene.repo.models_lock_path();
    assert!(!listed.exists(), "it isn't one of the list");

    // Where it was brought before at the same commit, no hub is needed.
    let before = scene.hub.requests().len();
    assert_eq!(scene.bring(&format!("hf:owner/repo@{COMMIT}")), id);
    scene.has_all_of(&id);
    assert_eq!(scene.hub.requests().len(), before);
    // A tag is looked up again, and gives the same model.
    assert_eq!(scene.bring("hf:owner/repo@v1"), id);
}

#[test]
fn gguf_files_are_made_where_targets_want_them() {
    let scene = Scene::new();
    let id = scene.bring("hf:owner/repo");
    scene.fetch(&id).unwrap();
    let make = || {
        let wanted = [WEIGHTS, "model-q8_0.gguf"].map(str::to_owned);
        let progress = &mut Progress::silent();
        make(&scene.repo, &id, &wanted, &scene.options, progress).unwrap()
    };
    let made = make();
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].name, "model-q8_0.gguf");
    assert_eq!(made[0].how, How::Generated);
    let dir = scene.models_dir().join(&id);
    let lock = std::fs::read_to_string(dir.join("model.lock")).unwrap();
    assert!(lock.contains(&made[0].sha256), "{lock}");
    assert_eq!(make()[0].how, How::Present);

    // A damaged file is made again, with the same bytes.
    let path = dir.join("model-q8_0.gguf");
    std::fs::write(&path, "GGUF").unwrap();
    let again = make();
    assert_eq!(again[0].how, How::Generated);
    assert_eq!(again[0].sha256, made[0].sha256);
}

#[test]
fn a_repository_that_is_not_there_is_named() {
    let scene = Scene::new();
    for (name, word) in [
        ("hf:owner/other", "has no owner/other at main (HTTP 404)"),
        ("hf:owner/repo@v9", "has no owner/repo at v9 (HTTP 404)"),
        ("hf:repo", "hf:org/repo"),
    ] {
        scene.refuses(name, &[word]);
    }
    scene.hub.status(401);
    let parts = ["without a token (HTTP 401)", "set HF_TOKEN"];
    scene.refuses("hf:owner/repo", &parts);
}

#[test]
fn a_gated_repository_says_whose_terms_to_accept() {
    let mut scene = Scene::new();
    scene.hub.state().gated = true;
    let terms = "it is gated: accept its terms at";
    scene.refuses("hf:owner/repo", &[terms]);
    scene.options.hub.token = Some("hf_secret".into());
    assert_eq!(scene.bring("hf:owner/repo"), "repo-01234567");
    assert!(scene.models().models[0].gated);
}

#[test]
fn what_a_repository_lacks_is_said_before_its_weights_are_downloaded() {
    for missing in ["config.json", "tokenizer.json", SHARDS[1]] {
        let scene = Scene::new();
        scene.hub.remove(missing);
        scene.refuses("hf:owner/repo", &[&format!("it lacks {missing}")]);
    }
    let scene = Scene::new();
    scene.hub.remove(INDEX);
    scene.refuses("hf:owner/repo", &["a reference needs safetensors"]);
}

#[test]
fn what_cannot_be_computed_is_refused_before_its_weights_are_downloaded() {
    let changes = [
        (
            "config.json",
            "\"llama\"",
            "\"mamba\"",
            "architecture \"mamba\" is not known",
        ),
        (
            "config.json",
            "\"vocab_size\": 768",
            "\"vocab_size\": 700",
            "768 tokens and the embedding 700 rows",
        ),
        (
            "config.json",
            "\"hidden_size\"",
            "\"width\"",
            "no positive number `hidden_size`",
        ),
        (INDEX, "model-00001", "../model-00001", "no plain name"),
        (
            "tokenizer.json",
            "\"BPE\"",
            "\"Unigram\"",
            "known here is BPE",
        ),
    ];
    for (file, from, to, why) in changes {
        let scene = Scene::new();
        scene.hub.change(file, |text| text.replace(from, to));
        let model = format!("hf:owner/repo at {COMMIT:.12}: ");
        scene.refuses("hf:owner/repo", &[model.as_str(), why]);
    }
}

#[test]
fn a_disk_that_is_too_small_is_said_with_the_size() {
    let scene = Scene::new();
    scene.hub.state().listed_size = Some(1 << 60);
    let parts = [
        "not enough disk space: 2.3 EB are to be downloaded",
        "point HF_HOME at a larger disk",
    ];
    scene.refuses("hf:owner/repo", &parts);
}

#[test]
fn weights_that_are_not_what_config_json_says_leave_nothing_behind() {
    let scene = Scene::new();
    // config.json claims more rows than there are, which only the weights show.
    let more = |text: String| text.replace("\"vocab_size\": 768", "\"vocab_size\": 800");
    scene.hub.change("config.json", more);
    let id = scene.bring("hf:owner/repo");
    let error = scene.fetch(&id).unwrap_err();
    assert!(error.is::<Refused>(), "{error:?}");
    let rows = "embed_tokens.weight is [768, 256] where config.json makes it";
    says(&format!("{error:#}"), &[rows]);
    assert!(!scene.models_dir().join(&id).exists());
}

#[test]
fn a_directory_is_copied_and_what_happens_to_it_later_changes_nothing() {
    let scene = Scene::new();
    let name = scene.original().display().to_string();
    let id = scene.bring(&name);
    assert!(id.starts_with("my-model-"), "{id}");
    let fetched = scene.fetch(&id).unwrap();
    assert_eq!(fetched.len(), 6);
    assert!(fetched.iter().all(|file| file.how == How::Copied));
    let (ours, theirs) = (scene.models_dir().join(&id), scene.original());
    assert_ne!(inode(&ours.join(SHARDS[0])), inode(&theirs.join(SHARDS[0])));
    assert_eq!(scene.bring(&name), id, "the same files are the same model");
    assert!(scene.hub.requests().is_empty());
    let told = serde_json::to_string(&scene.models().models[0]).unwrap();
    assert!(!told.contains(scene.dir.path().to_str().unwrap()), "{told}");

    // One weight changes, in place: the directory is another model now, and our copy stays the
    // same.
    let before = std::fs::read(ours.join(SHARDS[1])).unwrap();
    let mut bytes = before.clone();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(theirs.join(SHARDS[1]), &bytes).unwrap();
    let other = scene.bring(&name);
    assert_ne!(other, id);
    assert_eq!(std::fs::read(ours.join(SHARDS[1])).unwrap(), before);

    // The directory changes again after it was looked at and before it is copied.
    std::fs::write(theirs.join(SHARDS[1]), before).unwrap();
    let error = format!("{:#}", scene.fetch(&other).unwrap_err());
    says(&error, &["is no longer the file that was brought"]);
    assert!(!scene.models_dir().join(&other).join(SHARDS[1]).exists());
    std::fs::remove_dir_all(&theirs).unwrap();
    scene.has_all_of(&id);
}

#[test]
fn half_a_model_is_refused_and_nothing_is_kept_of_it() {
    for missing in ["config.json", "tokenizer.json", SHARDS[1]] {
        let scene = Scene::new();
        std::fs::remove_file(scene.original().join(missing)).unwrap();
        let name = scene.original().display().to_string();
        scene.refuses(&name, &[&format!("{name}: it lacks {missing}")]);
    }
    let scene = Scene::new();
    let shard = scene.original().join(SHARDS[0]);
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    let name = scene.original().display().to_string();
    scene.refuses(&name, &["is truncated"]);
    let file = shard.display().to_string();
    scene.refuses(&file, &["it is no directory"]);
    scene.refuses("./no/such/model", &["no such directory"]);
}
