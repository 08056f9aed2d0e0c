//! The price tables of the cost page: every row with its date and its source, and
//! which of them is for the machine that was measured.

use super::Shown;
use super::cost_number::money;
use crate::export::on_gpu;
use crate::fmt;
use crate::markdown::safe_href;
use schema::prices::{Dated, Kind, Offer, Prices, Source};
use schema::record::Status;
use serde::Serialize;

/// What a run was measured on, as far as a price goes.
pub struct Machine {
    /// A GPU where any target has numbers from one, else the processor.
    pub kind: Kind,
    device: String,
    cpus: u32,
}

impl Machine {
    /// The machine of a run.
    pub fn of(shown: &Shown) -> Self {
        let measured = |id: &str| {
            let mut cells = shown.analysis.cells.iter();
            cells.any(|cell| cell.target == id && cell.status == Status::Ok)
        };
        let targets = &mut shown.targets().iter();
        let gpu = targets.any(|target| on_gpu(target) && measured(&target.id));
        let facts = &shown.run.header.provenance.facts;
        let fact = |key: &str| facts.get(key).cloned().unwrap_or_default();
        Self {
            kind: if gpu { Kind::Gpu } else { Kind::Cpu },
            device: fact(if gpu { "gpu" } else { "cpu_model" }),
            cpus: fact("cpus").parse().unwrap_or(0),
        }
    }

    /// The cheapest offer of this machine.
    pub fn cheapest<'a>(&self, prices: &'a Prices) -> Option<&'a Offer> {
        let price = |offer: &Offer| offer.usd_per_machine_h().unwrap_or(f64::INFINITY);
        prices
            .offers
            .iter()
            .filter(|offer| offer.is_of(self.kind, &self.device, self.cpus))
            .min_by(|a, b| price(a).total_cmp(&price(b)))
    }

    /// In words.
    pub fn words(&self) -> String {
        let device = match self.device.is_empty() {
            true => "a device whose name could not be read",
            false => &self.device,
        };
        match self.kind {
            Kind::Gpu => device.to_owned(),
            Kind::Cpu => format!("{device} with {} CPUs", self.cpus),
        }
    }
}

/// All tables.
#[derive(Clone, Debug, Serialize)]
pub struct PriceTables {
    date: String,
    about: String,
    offers: Vec<OfferRow>,
    electricity: Vec<PlainRow>,
    apis: Vec<PlainRow>,
}

#[derive(Clone, Debug, Serialize)]
struct OfferRow {
    provider: String,
    product: String,
    model: String,
    units: String,
    on_demand: String,
    spot: String,
    per_machine: String,
    region: String,
    note: String,
    source: SourceView,
}

#[derive(Clone, Debug, Serialize)]
struct PlainRow {
    name: String,
    prices: Vec<String>,
    source: SourceView,
}

#[derive(Clone, Debug, Serialize)]
struct SourceView {
    date: String,
    links: Vec<(String, String)>,
}

/// A price file as tables.
pub fn tables(prices: &Prices) -> PriceTables {
    PriceTables {
        date: prices.date.clone(),
        about: prices.about.trim().to_owned(),
        offers: prices.offers.iter().map(offer).collect(),
        electricity: prices
            .electricity
            .iter()
            .map(|row| PlainRow {
                name: row.place.clone(),
                prices: vec![money(row.usd_per_kwh)],
                source: source(&row.source),
            })
            .collect(),
        apis: prices
            .apis
            .iter()
            .map(|row| PlainRow {
                name: format!("{}, {}", row.provider, row.model),
                prices: vec![money(row.usd_per_m_input), money(row.usd_per_m_output)],
                source: source(&row.source),
            })
            .collect(),
    }
}

fn offer(offer: &Offer) -> OfferRow {
    let price = |usd: Option<f64>| usd.map_or(fmt::NONE.into(), money);
    let unit = match offer.kind {
        Kind::Gpu if offer.units == 1 => "GPU",
        Kind::Gpu => "GPUs",
        Kind::Cpu => "CPUs",
    };
    OfferRow {
        provider: offer.provider.clone(),
        product: offer.product.clone(),
        model: offer.model.clone(),
        units: format!("{} {unit}", offer.units),
        on_demand: price(offer.usd_per_h_on_demand),
        spot: price(offer.usd_per_h_spot),
        per_machine: offer
            .usd_per_machine_h()
            .map_or(fmt::NONE.into(), |usd| money((usd * 1e4).round() / 1e4)),
        region: match offer.region.is_empty() {
            true => "not stated".into(),
            false => offer.region.clone(),
        },
        note: offer.note.clone(),
        source: source(&offer.source),
    }
}

fn source(source: &Source) -> SourceView {
    let links = [("price", &source.url), ("read at", &source.via)];
    SourceView {
        date: match source.dated {
            Dated::Published => source.date.clone(),
            Dated::Seen => format!("{} (when it was seen; the page bears no date)", source.date),
        },
        links: links
            .into_iter()
            .filter(|(_, url)| safe_href(url))
            .map(|(label, url)| (label.to_owned(), url.clone()))
            .collect(),
    }
}
