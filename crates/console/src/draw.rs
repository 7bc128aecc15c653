//! Pictures as SVG, a function of their data alone: no script, no fonts, the same bytes each time.

pub(crate) mod bars;
pub(crate) mod graph;
pub(crate) mod waterfall;
