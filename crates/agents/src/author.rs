//! The author's side of packs: from a first draft to a signed archive.

mod collect;
mod scaffold;
mod sign;

pub use collect::{AuthorError, bundle, collect};
pub use scaffold::scaffold;
pub use sign::{Signed, SigningKey, sign};
