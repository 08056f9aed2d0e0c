//! Predictions for the synthetic world: one of each kind. Some can be decided there.

use schema::hypothesis::{CaseSelector, Claim, Hypotheses, Hypothesis, Place, Selector};

fn place(id: &str, backends: &[&str], parameters_min: Option<u64>) -> Place {
    Place {
        id: id.into(),
        about: format!("synthetic place {id}"),
        backends: backends.iter().map(|&b| b.to_owned()).collect(),
        parameters_min,
        command: format!("cargo xtask bench-all --profile {id}"),
    }
}

fn says(id: &str, place: &str, metric: &str, scenario: &str, claim: Claim) -> Hypothesis {
    Hypothesis {
        id: id.into(),
        group: format!("Synthetic {place}"),
        says: format!("Synthetic prediction {id}."),
        reading: "Invented for a test.".into(),
        place: place.into(),
        claim,
        metric: (!metric.is_empty()).then(|| metric.to_owned()),
        scenarios: (!scenario.is_empty())
            .then(|| scenario.to_owned())
            .into_iter()
            .collect(),
        at: CaseSelector::default(),
        of: Selector::default(),
        per_engine: false,
        any: false,
        by_construction: false,
        command: None,
    }
}

pub fn hypotheses() -> Hypotheses {
    let range = |min, max| Claim::Range {
        min: Some(min),
        max: Some(max),
    };
    let ratio = Claim::Ratio {
        against: vec!["pytorch.cpu.f32".into()],
        min: Some(2.0),
        max: None,
    };
    let never = Claim::Unmeasured {
        why: "Nobody times it.".into(),
    };
    let linear = Claim::Linear { min: 0.9 };
    let among = Selector::default;
    let lowest = Claim::Lowest { among: among() };
    let highest = Claim::Highest { among: among() };
    let steadiest = Claim::LeastVariation { among: among() };
    let candle = |id: &str, metric: &str, scenario: &str, claim| {
        let mut hypothesis = says(id, "here", metric, scenario, claim);
        hypothesis.of.targets = vec!["candle.cpu.f32".into()];
        hypothesis
    };
    let single = "single_request";
    Hypotheses {
        places: vec![
            place("here", &[], None),
            place("gpu", &["cuda"], Some(1_000_000_000)),
        ],
        hypotheses: vec![
            says("wide", "here", "ttft_ns", single, range(0.0, 1e15)),
            says("narrow", "here", "ttft_ns", single, range(1.0, 2.0)),
            says("twice", "here", "e2e_ns", single, ratio),
            says("steady", "here", "", "", Claim::Variation { max: 0.05 }),
            says("many", "here", "", "", Claim::Samples { min: 100 }),
            says("linear", "here", "output_tok_per_s", "concurrent", linear),
            candle("first", "ttft_ns", single, lowest),
            candle("most", "output_tok_per_s", "sustained", highest),
            candle("calm", "ttft_ns", "", steadiest),
            says("gpu", "gpu", "ttft_ns", single, range(1.0, 2.0)),
            says("never", "gpu", "", "", never),
        ],
    }
}
