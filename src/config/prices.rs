//! `[prices."provider/model"]`: what an operator pays for models, over the built-in list.

use serde::Deserialize;

use callboard_agents::{ModelRef, Price, PriceTable};

use super::Config;
use super::values::{Named, dollars};

/// A model with what a million of its tokens costs.
#[derive(Debug, Clone)]
pub(crate) struct Priced {
    model: ModelRef,
    price: Price,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    #[serde(deserialize_with = "dollars")]
    input: Option<f64>,
    #[serde(deserialize_with = "dollars")]
    output: Option<f64>,
    #[serde(deserialize_with = "dollars")]
    cache_read: Option<f64>,
    #[serde(deserialize_with = "dollars")]
    cache_write: Option<f64>,
}

impl Named for Priced {
    type Section = Section;

    fn new(name: &str, section: Section) -> Result<Self, String> {
        let wrong = |_| "must be called provider/model\nwrite it like [prices.\"local/qwen3\"]";
        let model = name.parse().map_err(wrong)?;
        let (Some(input), Some(output)) = (section.input, section.output) else {
            return Err(
                "needs both input and output\nin US dollars for a million tokens".to_owned()
            );
        };
        let usual = Price::usual(input, output);
        let price = Price {
            cache_read: section.cache_read.unwrap_or(usual.cache_read),
            cache_write: section.cache_write.unwrap_or(usual.cache_write),
            ..usual
        };
        Ok(Self { model, price })
    }
}

impl Config {
    /// What calls of models cost here.
    pub(crate) fn price_table(&self) -> PriceTable {
        self.prices.values().fold(PriceTable::default(), |table, priced| {
            table.with(priced.model.clone(), priced.price)
        })
    }
}
