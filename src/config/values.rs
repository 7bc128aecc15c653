//! Values that serde cannot check by their type alone, and sections that have names.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// A value of which `admit` makes what is kept; `wanted` says what would do, and on a second line why.
pub(super) fn checked<'de, D, T, U>(
    deserializer: D,
    wanted: &str,
    admit: impl FnOnce(T) -> Option<U>,
) -> Result<U, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let value = T::deserialize(deserializer)?;
    admit(value).ok_or_else(|| D::Error::invalid_value(Unexpected::Other("this"), &wanted))
}

/// A whole number that makes sense for its key.
pub(super) fn whole<'de, D, T, const LEAST: u64, const MOST: u64>(
    deserializer: D,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let wanted = match MOST {
        u64::MAX => format!("at least {LEAST}"),
        most => format!("{LEAST} to {most}"),
    };
    checked(deserializer, &wanted, |number: i128| {
        let number = u64::try_from(number).ok().filter(|it| (LEAST..=MOST).contains(it))?;
        T::try_from(number).ok()
    })
}

/// An amount of money, or a price.
pub(super) fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    checked(deserializer, "at least 0", |number: f64| {
        (number.is_finite() && number >= 0.0).then_some(Some(number))
    })
}

pub(super) fn path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    checked(deserializer, "a path", |text: String| {
        (!text.trim().is_empty()).then(|| Some(text.into()))
    })
}

pub(super) fn absolute_paths<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<PathBuf>, D::Error> {
    checked(deserializer, "a list of absolute paths", |paths: Vec<PathBuf>| {
        paths.iter().all(|path| path.is_absolute()).then_some(paths)
    })
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_fine)
}

/// What a section such as `[providers.NAME]` becomes. What is wrong with it is said as `Fault` describes.
pub(super) trait Named: Sized {
    type Section: for<'de> Deserialize<'de>;

    fn new(name: &str, section: Self::Section) -> Result<Self, String>;
}

/// All sections of a kind, by their names.
pub(super) fn named<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Named,
{
    deserializer.deserialize_map(Sections(PhantomData))
}

struct Sections<T>(PhantomData<T>);

impl<'de, T: Named> Visitor<'de> for Sections<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut sections = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let section = map.next_value_seed(Section { name: &name, of: PhantomData })?;
            sections.insert(name, section);
        }
        Ok(sections)
    }
}

/// Errors that are raised while this reads get the place of the section.
struct Section<'n, T> {
    name: &'n str,
    of: PhantomData<T>,
}

impl<'de, T: Named> DeserializeSeed<'de> for Section<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::new(self.name, T::Section::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
