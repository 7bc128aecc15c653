//! Query strings: protocol routes ignore what they do not know, our own refuse it.

use axum::extract::Query;
use axum::http::Uri;

use crate::problem::Problem;

/// The parameters of one request, decoded, in the order sent.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Keeps everything; unknown names do no harm.
    pub fn open(uri: &Uri) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Problem::invalid("the query string cannot be read"))?;
        Ok(Self(pairs))
    }

    /// Refuses names that are not on the list, and names given twice.
    pub(crate) fn closed(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let parameters = Self::open(uri)?;
        for (index, (name, _)) in parameters.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Problem::invalid(format!("unknown query parameter {name:?}"))
                    .with("path", name.as_str()));
            }
            if parameters.0[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::invalid_at(name, "given twice"));
            }
        }
        Ok(parameters)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads a parameter with `read`; None stays None.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Problem::invalid_at(name, &format!("must be {what}")))
    }
}
