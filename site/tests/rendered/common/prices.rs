//! Invented prices: of the machine that the synthetic run names, and of others.

use schema::prices::{Api, Dated, Electricity, Kind, Offer, Prices, Source};

/// A price file with an offer for the synthetic machine.
pub fn prices() -> Prices {
    Prices {
        date: "2099-01-01".into(),
        about: "Invented.".into(),
        offers: vec![
            offer(
                "Synthetic Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                2,
                0.36,
            ),
            offer(
                "Dear Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                2,
                0.72,
            ),
            offer(
                "Large Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                64,
                0.01,
            ),
            offer("GPU Cloud", Kind::Gpu, "NVIDIA Synthetic", 8, 16.0),
        ],
        electricity: vec![Electricity {
            place: "Nowhere".into(),
            usd_per_kwh: 0.1,
            source: source(),
        }],
        apis: vec![Api {
            provider: "Synthetic API".into(),
            model: "tiny-llama".into(),
            usd_per_m_input: 0.1,
            usd_per_m_output: 0.4,
            source: source(),
        }],
    }
}

fn offer(provider: &str, kind: Kind, device: &str, units: u32, usd: f64) -> Offer {
    Offer {
        provider: provider.into(),
        product: "one".into(),
        kind,
        model: device.into(),
        devices: vec![device.into()],
        units,
        usd_per_h_on_demand: Some(usd),
        usd_per_h_spot: None,
        region: String::new(),
        note: String::new(),
        source: source(),
    }
}

fn source() -> Source {
    Source {
        url: "https://prices.example/".into(),
        via: String::new(),
        date: "2098-12-31".into(),
        dated: Dated::Published,
    }
}
