//! The scenarios of the synthetic run and the cases it has of each.

use schema::scenario::{Axis, LoadShape, Scenario};

pub struct Shape {
    pub id: &'static str,
    pub title: &'static str,
    pub question: &'static str,
    pub load: LoadShape,
    pub axis: Axis,
    pub reports: &'static [&'static str],
    pub values: &'static [u32],
}

pub const SHAPES: [Shape; 5] = [
    Shape {
        id: "concurrent",
        title: "Concurrent users",
        question: "What does a user feel when others use the engine too?",
        load: LoadShape::ClosedLoop,
        axis: Axis::Users,
        reports: &["e2e_ns", "ttft_ns", "itl_ns", "output_tok_per_s"],
        values: &[1, 2, 4, 8],
    },
    Shape {
        id: "long_context",
        title: "Long context",
        question: "How does the wait for the first token grow with the prompt?",
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: &["ttft_ns", "itl_ns", "e2e_ns", "peak_rss_bytes"],
        values: &[128, 256, 512],
    },
    Shape {
        id: "memory",
        title: "Memory",
        question: "How much memory does a batch take?",
        load: LoadShape::Batch,
        axis: Axis::Batch,
        reports: &[
            "peak_rss_bytes",
            "weight_bytes",
            "kv_bytes",
            "output_tok_per_s",
        ],
        values: &[1, 2, 4],
    },
    Shape {
        id: "single_request",
        title: "Single request",
        question: "How long does one user wait when nobody else does?",
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: &["ttft_ns", "itl_ns", "tpot_ns", "e2e_ns", "cold_start_ns"],
        values: &[10, 50, 200],
    },
    Shape {
        id: "sustained",
        title: "Sustained load",
        question: "How many tokens a second does an engine deliver when it is kept busy?",
        load: LoadShape::ClosedLoop,
        axis: Axis::InFlight,
        reports: &[
            "output_tok_per_s",
            "requests_per_s",
            "e2e_ns",
            "cpu_utilization_percent",
        ],
        values: &[4, 8],
    },
];

pub fn scenarios() -> Vec<Scenario> {
    SHAPES
        .iter()
        .map(|shape| Scenario {
            prompts: Default::default(),
            id: shape.id.into(),
            version: 1,
            title: shape.title.into(),
            question: shape.question.into(),
            load: shape.load,
            axis: shape.axis,
            reports: shape.reports.iter().map(|r| (*r).into()).collect(),
            analysis: "What these numbers mean: **nothing**, they are synthetic.\n\n- `TTFT` is mostly the prefill,\n- *ITL* is one decode step.\n".into(),
        })
        .collect()
}
