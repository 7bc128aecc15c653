//! Whose turn it is where more runs are due than can be taken.

use std::collections::BTreeMap;

use super::ClaimRequest;

/// Chooses among due runs, which are offered with the longest overdue first: whose tenant would hold the fewest has its
/// turn first, and nobody gets more than the request's share. So a tenant with many runs keeps no other waiting, also
/// where places become free one by one.
#[derive(Debug)]
pub struct Turns<'r, T> {
    request: &'r ClaimRequest,
    /// What tenants hold, and what they would hold with all that was offered.
    held: BTreeMap<String, (usize, usize)>,
    /// With the turn of each.
    offered: Vec<(usize, T)>,
    count: usize,
}

impl<'r, T> Turns<'r, T> {
    /// So many due runs are looked at; with more, those that came first go first.
    pub const MOST_LOOKED_AT: usize = 65_536;

    pub fn new(request: &'r ClaimRequest) -> Self {
        Self { request, held: BTreeMap::new(), offered: Vec::new(), count: 0 }
    }

    /// Takes note of a due run; it is read only where it may be chosen.
    pub fn offer<E>(&mut self, tenant: &str, read: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        self.count += 1;
        let (before, turn) = match self.held.get_mut(tenant) {
            Some(held) => held,
            None => {
                let before = self.request.held.get(&tenant.into()).copied().unwrap_or_default();
                self.held.entry(tenant.to_owned()).or_insert((before, before))
            }
        };
        *turn += 1;
        let (before, turn) = (*before, *turn);
        // Of one tenant no more are taken than of all.
        if turn <= self.request.share && turn - before <= self.request.most {
            self.offered.push((turn, read()?));
        }
        Ok(())
    }

    /// Those whose turn it is, and whether there are others.
    pub fn chosen(mut self) -> (Vec<T>, bool) {
        self.offered.sort_by_key(|(turn, _)| *turn);
        self.offered.truncate(self.request.most);
        let has_more = self.count > self.offered.len();
        (self.offered.into_iter().map(|(_, run)| run).collect(), has_more)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use callboard_protocol::Timestamp;

    use super::*;

    /// What is taken of a line of runs, each named by its tenant's letter.
    fn taken(line: &str, most: usize, share: usize, held: &[(&str, usize)]) -> (String, bool) {
        let held = held.iter().map(|(tenant, runs)| ((*tenant).into(), *runs)).collect();
        let at = Timestamp::default();
        let request =
            ClaimRequest { host: "h".into(), at, lapsed_at: at, until: at, most, share, held };
        let mut turns = Turns::new(&request);
        for run in line.chars() {
            let read = || Ok::<_, Infallible>(run);
            turns.offer(&run.to_string(), read).unwrap_or_else(|never| match never {});
        }
        let (chosen, has_more) = turns.chosen();
        (chosen.into_iter().collect(), has_more)
    }

    #[test]
    fn tenants_take_turns() {
        assert_eq!(taken("aaab", 9, 9, &[]), ("abaa".to_owned(), false));
        assert_eq!(taken("aaaab", 2, 9, &[]), ("ab".to_owned(), true));
        assert_eq!(taken("aab", 1, 9, &[]), ("a".to_owned(), true));
    }

    #[test]
    fn whoever_holds_fewest_is_next_and_nobody_gets_more_than_its_share() {
        assert_eq!(taken("aaab", 1, 9, &[("a", 2)]), ("b".to_owned(), true));
        assert_eq!(taken("aaab", 9, 3, &[("a", 2)]), ("ba".to_owned(), true));
        assert_eq!(taken("aaa", 9, 3, &[("a", 3)]), (String::new(), true));
    }
}
