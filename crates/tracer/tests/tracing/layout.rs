//! Compares the declarations in `src/cupti.rs` with NVIDIA's own headers, where this machine has
//! them: a C program prints what the header declares.

use kernel_tracer::cupti::{self, ActivityKernel};
use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// The name of each field in C and its offset in Rust: the fields that the tracer reads and those
/// between them.
fn fields() -> Vec<(&'static str, usize)> {
    macro_rules! at {
        ($($c:literal $rust:ident),+ $(,)?) => {
            vec![$(($c, offset_of!(ActivityKernel, $rust))),+]
        };
    }
    at![
        "kind" kind, "cacheConfig" cache_config, "sharedMemoryConfig" shared_memory_config,
        "registersPerThread" registers_per_thread,
        "partitionedGlobalCacheRequested" partitioned_global_cache_requested,
        "partitionedGlobalCacheExecuted" partitioned_global_cache_executed,
        "start" start, "end" end, "completed" completed, "deviceId" device_id,
        "contextId" context_id, "streamId" stream_id, "gridX" grid, "blockX" block,
        "staticSharedMemory" static_shared_memory, "dynamicSharedMemory" dynamic_shared_memory,
        "localMemoryPerThread" local_memory_per_thread, "localMemoryTotal" local_memory_total,
        "correlationId" correlation_id, "gridId" grid_id, "name" name, "reserved0" reserved0,
        "queued" queued, "submitted" submitted, "launchType" launch_type,
        "sharedMemoryExecuted" shared_memory_executed, "graphNodeId" graph_node_id,
    ]
}

/// The source of a C program that prints the version, the constants, and the record's size and
/// offsets.
fn program(record: &str) -> String {
    let mut c = String::from("#include <stddef.h>\n#include <stdio.h>\n#include <cupti.h>\n");
    c.push_str("int main(void) {\n printf(\"%d %d %d %d %d\\n\", CUPTI_API_VERSION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ERROR_MAX_LIMIT_REACHED, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);\n");
    let _ = writeln!(c, " printf(\"%zu\\n\", sizeof({record}));");
    for (field, _) in fields() {
        let _ = writeln!(c, " printf(\"%zu\\n\", offsetof({record}, {field}));");
    }
    // The two neighbours that Rust declares as one array.
    for axis in ["grid", "block"] {
        let _ = writeln!(
            c,
            " printf(\"%zu\\n\", offsetof({record}, {axis}Z) - offsetof({record}, {axis}X));"
        );
    }
    // This doesn't compile where a function's type differs from the tracer's.
    c.push_str(
        " CUptiResult (*a)(uint32_t *) = cuptiGetVersion; CUptiResult (*b)(CUptiResult, const char **) = cuptiGetResultString;\n\
         CUptiResult (*c)(uint64_t *) = cuptiGetTimestamp; CUptiResult (*d)(CUpti_ActivityKind) = cuptiActivityEnable;\n\
         CUptiResult (*e)(uint32_t) = cuptiActivityFlushAll; CUptiResult (*f)(uint8_t *, size_t, CUpti_Activity **) = cuptiActivityGetNextRecord;\n\
         CUptiResult (*g)(CUcontext, uint32_t, size_t *) = cuptiActivityGetNumDroppedRecords;\n\
         CUptiResult (*h)(uint64_t (*)(void)) = cuptiActivityRegisterTimestampCallback;\n\
         CUptiResult (*i)(void (*)(uint8_t **, size_t *, size_t *), void (*)(CUcontext, uint32_t, uint8_t *, size_t, size_t)) = cuptiActivityRegisterCallbacks;\n\
         return sizeof a + sizeof b + sizeof c + sizeof d + sizeof e + sizeof f + sizeof g + sizeof h + sizeof i == 0;\n}\n",
    );
    c
}

#[test]
fn the_declarations_are_the_headers_own() {
    let toolkits = crate::toolkits();
    if toolkits.is_empty() {
        eprintln!("skipped: no cupti.h beside a cuda.h; name a CUDA toolkit in CUDA_HOME");
        return;
    }
    for (include, _) in toolkits {
        let dir = tempfile::tempdir().unwrap();
        let mut checked = 0;
        // A library writes the newest version that its header declares, so all must begin alike.
        for version in 5..=10 {
            let record = format!("CUpti_ActivityKernel{version}");
            let (c, exe) = (dir.path().join("p.c"), dir.path().join("p"));
            std::fs::write(&c, program(&record)).unwrap();
            let mut flags: Vec<String> = include
                .iter()
                .map(|dir| format!("-I{}", dir.display()))
                .collect();
            // The functions are only named, never called.
            flags.extend(["-Werror".into(), "-Wno-unused-variable".into()]);
            flags.extend([
                "-Wl,--unresolved-symbols=ignore-all".into(),
                "-Wl,-z,lazy".into(),
            ]);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            match crate::cc(&c, &exe, &flags) {
                Err(said) if said.contains("undeclared") || said.contains("unknown type") => {
                    continue;
                }
                Err(said) if said.contains("No such file") => {
                    eprintln!("skipped: {} is no whole toolkit", include[0].display());
                    break;
                }
                Err(said) => panic!("{record}: {said}"),
                Ok(()) => {}
            }
            let output = Command::new(&exe).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            compare(&record, &text);
            checked += 1;
        }
        assert!(
            checked == 0 || checked >= 5,
            "only {checked} versions of the record in {include:?}"
        );
        eprintln!(
            "checked {checked} versions of the record in {}",
            include[0].display()
        );
    }
}

fn compare(record: &str, said: &str) {
    let mut lines = said.lines();
    let constants: Vec<u32> = lines
        .next()
        .unwrap_or_else(|| panic!("{record}: the program said nothing"))
        .split(' ')
        .map(|number| number.parse().unwrap())
        .collect();
    if !cupti::is_known(constants[0]) {
        eprintln!("API version {}: the tracer refuses it", constants[0]);
        return;
    }
    let ours = [
        cupti::KIND_CONCURRENT_KERNEL,
        cupti::MAX_LIMIT_REACHED,
        cupti::INSUFFICIENT_PRIVILEGES,
        cupti::FLUSH_FORCED,
    ];
    assert_eq!(constants[1..], ours);
    let mut number = || lines.next().unwrap().parse::<usize>().unwrap();
    let size = number();
    assert!(
        size >= size_of::<ActivityKernel>(),
        "{record} has {size} bytes"
    );
    for (field, offset) in fields() {
        assert_eq!(number(), offset, "{record}.{field}");
    }
    assert_eq!((number(), number()), (8, 8), "x, y, z of {record}");
}
