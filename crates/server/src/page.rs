//! Lists, a page at a time.

use crate::problem::Problem;
use crate::query::Parameters;

/// How much of a list a caller wants at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSize(usize);

impl PageSize {
    const USUAL: usize = 50;
    /// More than people read, and little enough to be read and sent in one go.
    pub(crate) const MOST: u16 = 200;

    pub(crate) fn read(query: &Parameters) -> Result<Self, Problem> {
        Ok(Self::asked(query)?.unwrap_or(Self(Self::USUAL)))
    }

    /// For readers who know of no pages.
    pub(crate) fn read_or_most(query: &Parameters) -> Result<Self, Problem> {
        Ok(Self::asked(query)?.unwrap_or(Self(usize::from(Self::MOST))))
    }

    /// More than the most counts as the most.
    pub(crate) fn read_clamped(query: &Parameters) -> Result<Self, Problem> {
        let positive = |text: &str| text.parse::<usize>().ok().filter(|size| *size > 0);
        let asked = query.read("limit", "an integer of at least 1", positive)?;
        Ok(Self(asked.map_or(Self::USUAL, |size| size.min(Self::MOST.into()))))
    }

    fn asked(query: &Parameters) -> Result<Option<Self>, Problem> {
        let in_range = |text: &str| {
            text.parse().ok().filter(|size| (1..=usize::from(Self::MOST)).contains(size))
        };
        Ok(query.read("limit", "an integer from 1 to 200", in_range)?.map(Self))
    }

    pub(crate) fn get(self) -> usize {
        self.0
    }

    /// How many to look for: one more than is shown says whether there is a next page.
    pub(crate) fn and_one(self) -> usize {
        self.0 + 1
    }

    /// Leaves a page of what was found, and answers its last one where more follow.
    pub(crate) fn cut<T>(self, found: &mut Vec<T>) -> Option<&T> {
        let has_more = found.len() > self.0;
        found.truncate(self.0);
        found.last().filter(|_| has_more)
    }
}

#[cfg(test)]
mod tests {
    use super::PageSize;

    #[test]
    fn the_last_of_a_page_is_told_where_more_follow() {
        for (found, shown, last) in [(3, 2, Some(1)), (2, 2, None), (0, 0, None)] {
            let mut items: Vec<usize> = (0..found).collect();
            assert_eq!(PageSize(2).cut(&mut items).copied(), last, "{found}");
            assert_eq!(items.len(), shown, "{found}");
        }
    }
}
