//! How an engine's program is built, and what that requires of a machine.

use serde::{Deserialize, Serialize};

/// The environment of a program that names none, whose PyTorch also brings libtorch where a build
/// names no other: its directory under the build directory.
pub const VENV: &str = "venv";

/// How an engine's program is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Build {
    /// A Cargo binary, built in release.
    Cargo(CargoBuild),
    /// A program that exists already.
    Prebuilt {
        /// Path of the program, absolute or relative to the repository.
        path: String,
        /// Requirements for running it.
        #[serde(default)]
        needs: Vec<Need>,
        /// The environment that brings its libtorch, where that isn't the project's usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        libtorch: Option<Libtorch>,
    },
    /// A Python program in one of the project's virtual environments.
    Python {
        /// Path of the program, relative to the repository.
        script: String,
        /// Path of its hash-locked requirements, relative to the repository.
        requirements: String,
        /// The environment's directory under the build directory. Programs with the same
        /// requirements share one.
        #[serde(default = "venv")]
        environment: String,
        /// Folder of another program whose modules it imports too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modules: Option<String>,
    },
}

/// A binary that Cargo builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CargoBuild {
    /// Package name.
    pub package: String,
    /// Binary name.
    pub bin: String,
    /// Manifest of an excluded workspace, relative to the repository; absent: the root workspace.
    #[serde(default)]
    pub manifest: Option<String>,
    /// Features of the package.
    #[serde(default)]
    pub features: Vec<String>,
    /// Whether its default features are enabled too.
    #[serde(default = "yes")]
    pub default_features: bool,
    /// Requirements beyond Cargo and a C compiler.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// The environment that brings its libtorch, where that isn't the project's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<Libtorch>,
}

/// A Python environment out of whose PyTorch a program takes libtorch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Libtorch {
    /// Path of its hash-locked requirements, relative to the repository.
    pub requirements: String,
    /// Its directory under the build directory.
    pub environment: String,
}

impl CargoBuild {
    /// A binary of the root workspace, with its package's default features and without further
    /// requirements.
    pub fn new(package: impl Into<String>, bin: impl Into<String>) -> Self {
        Self {
            package: package.into(),
            bin: bin.into(),
            manifest: None,
            features: Vec::new(),
            default_features: true,
            needs: Vec::new(),
            libtorch: None,
        }
    }

    /// The arguments that tell Cargo which features are enabled.
    pub fn feature_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.default_features {
            arguments.push("--no-default-features".to_owned());
        }
        if !self.features.is_empty() {
            arguments.extend(["--features".to_owned(), self.features.join(",")]);
        }
        arguments
    }
}

fn venv() -> String {
    VENV.to_owned()
}

fn yes() -> bool {
    true
}

/// A requirement of a build beyond Cargo and a C compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// libtorch: the one that `LIBTORCH` names, or the one inside a Python environment, which is
    /// the one that the build names ([`Libtorch`]), else the project's usual one.
    Libtorch,
    /// A CUDA compiler with its libraries, found or provisioned.
    CudaToolkit,
    /// CMake, found or provisioned.
    Cmake,
    /// libclang, which bindgen loads, found or provisioned.
    Libclang,
    /// Clang, to compile C and C++ parts with, where it is installed. Elsewhere the system's
    /// compiler is used, without the instructions that it is known to get wrong.
    Clang,
    /// NVIDIA's mathematical functions as LLVM bitcode, which a program links into the kernels that
    /// it compiles when it runs.
    Libdevice,
}

impl Need {
    /// Whether a program that was built elsewhere needs it too, in order to run.
    pub fn is_to_run(self) -> bool {
        matches!(self, Self::Libtorch | Self::Libdevice)
    }
}

impl Build {
    /// The requirements of the build.
    pub fn needs(&self) -> &[Need] {
        match self {
            Self::Cargo(CargoBuild { needs, .. }) | Self::Prebuilt { needs, .. } => needs,
            Self::Python { .. } => &[],
        }
    }

    /// The environment that brings the program's libtorch, where the registry names one.
    pub fn libtorch(&self) -> Option<&Libtorch> {
        match self {
            Self::Cargo(CargoBuild { libtorch, .. }) | Self::Prebuilt { libtorch, .. } => {
                libtorch.as_ref()
            }
            Self::Python { .. } => None,
        }
    }

    /// The directory and the requirements of the Python environment that the registry names for the
    /// program: the one in which it runs, or the one that brings its libtorch.
    pub fn environment(&self) -> Option<(&str, &str)> {
        if let Self::Python {
            environment,
            requirements,
            ..
        } = self
        {
            return Some((environment.as_str(), requirements.as_str()));
        }
        let from = self.libtorch()?;
        Some((from.environment.as_str(), from.requirements.as_str()))
    }
}
