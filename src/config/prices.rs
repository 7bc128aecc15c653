//! `[prices]`: what an operator pays for models, over the built-in list.

use callboard_agents::{ModelRef, Price, PriceTable};

use super::Config;
use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prices(Vec<(ModelRef, Price)>);

const KEYS: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

impl Config {
    /// What calls of models cost here.
    pub(crate) fn price_table(&self) -> PriceTable {
        let own = self.prices.0.iter().cloned();
        own.fold(PriceTable::default(), |table, (model, price)| table.with(model, price))
    }
}

impl Source<'_> {
    pub(super) fn prices(&self, value: &Value<'_>) -> Result<Prices, CommandError> {
        let table = self.section(value, "prices")?;
        let priced = table.iter().map(|(key, value)| {
            let name = key.get_ref().as_ref();
            let model: ModelRef = name.parse().map_err(|error| {
                let place = self.place(key.span().start);
                CommandError::usage(format!("{place}: prices: {error}"))
                    .hint("write it like [prices.\"local/qwen3\"]")
            })?;
            Ok((model, self.price(value, &format!("prices.\"{name}\""))?))
        });
        priced.collect::<Result<_, _>>().map(Prices)
    }

    fn price(&self, value: &Value<'_>, path: &str) -> Result<Price, CommandError> {
        let table = self.section(value, path)?;
        let mut rates = [None; KEYS.len()];
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("{path}.{name}");
            let Some(place) = KEYS.iter().position(|known| *known == name) else {
                return Err(self.unknown(key.span().start, &path, name, &KEYS));
            };
            rates[place] = Some(self.dollars(value, &path)?);
        }
        let [Some(input), Some(output), cache_read, cache_write] = rates else {
            let place = self.place(value.span().start);
            let what = format!("{place}: {path} needs both input and output");
            return Err(CommandError::usage(what).hint("in US dollars for a million tokens"));
        };
        let usual = Price::usual(input, output);
        Ok(Price {
            cache_read: cache_read.unwrap_or(usual.cache_read),
            cache_write: cache_write.unwrap_or(usual.cache_write),
            ..usual
        })
    }
}

#[cfg(test)]
mod tests {
    use callboard_agents::TokenUsage;

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse("c.toml", text).map_err(|error| error.what)
    }

    #[test]
    fn an_operators_prices_are_over_the_list() {
        let text = "[prices.\"local/qwen3\"]\ninput = 2\noutput = 4.5\n\
                    [prices.\"anthropic/claude-sonnet-4-5\"]\ninput = 1.0\noutput = 1\ncache_read = 0\n";
        let prices = read(text).unwrap().price_table();
        let million = TokenUsage { input: 1_000_000, output: 1_000_000, ..TokenUsage::default() };
        let cost = |model: &str, usage| prices.estimate(&model.parse().unwrap(), &usage);
        assert_eq!(cost("local/qwen3", million), Some(6.5));
        let cached = TokenUsage { cache_read: Some(1_000_000), ..million };
        assert_eq!(cost("local/qwen3", cached), Some(4.7));
        assert_eq!(cost("anthropic/claude-sonnet-4-5", cached), Some(1.0));
        assert_eq!(cost("openai/gpt-4o", million), Some(12.5), "the list is still there");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, what) in [
            ("prices = 1", "c.toml:1: prices must be a section, not an integer"),
            ("[prices]\nqwen3 = 1", "c.toml:2: prices: \"qwen3\" must be provider/model"),
            ("[prices.\"a/b\"]\ninput = 1", "c.toml:1: prices.\"a/b\" needs both input and output"),
            (
                "[prices.\"a/b\"]\ninput = -1\noutput = 1",
                "c.toml:2: prices.\"a/b\".input must be at least 0, not -1",
            ),
            (
                "[prices.\"a/b\"]\ninput = \"1\"\noutput = 1",
                "c.toml:2: prices.\"a/b\".input must be a number, not a string",
            ),
            (
                "[prices.\"a/b\"]\nimput = 1\noutput = 1",
                "c.toml:2: unknown key prices.\"a/b\".imput",
            ),
        ] {
            assert_eq!(read(text).map(|_| ()), Err(what.to_owned()), "{text}");
        }
    }
}
