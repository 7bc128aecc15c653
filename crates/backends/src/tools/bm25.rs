//! Ranking of texts by the words that they share with a question (Okapi BM25).

use std::collections::BTreeMap;

/// How soon more of the same word stops to matter, and how much long texts are held back: the usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// The best texts with their scores, best first; texts that share no word with the question are left out.
pub(super) fn rank(question: &str, texts: &[&str], most: usize) -> Vec<(usize, f64)> {
    let counted: Vec<BTreeMap<String, f64>> = texts.iter().map(|text| count(text)).collect();
    let lengths: Vec<f64> = counted.iter().map(|words| words.values().sum()).collect();
    let average = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
    let asked: Vec<(String, f64)> = count(question)
        .into_keys()
        .map(|word| {
            let holding = counted.iter().filter(|words| words.contains_key(&word)).count() as f64;
            let rarity = (1.0 + (texts.len() as f64 - holding + 0.5) / (holding + 0.5)).ln();
            (word, rarity)
        })
        .collect();
    let score = |(words, length): (&BTreeMap<String, f64>, &f64)| -> f64 {
        let held_back = SATURATION * (1.0 - LENGTH + LENGTH * length / average);
        let worth = |(word, rarity): &(String, f64)| {
            let times = words.get(word).copied().unwrap_or(0.0);
            rarity * times * (SATURATION + 1.0) / (times + held_back)
        };
        asked.iter().map(worth).sum()
    };
    let scores = counted.iter().zip(&lengths).map(score).enumerate();
    let mut ranked: Vec<(usize, f64)> = scores.filter(|(_, score)| *score > 0.0).collect();
    // Equal scores keep the order of the texts, so that a repeated question has one answer.
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked.truncate(most);
    ranked
}

fn count(text: &str) -> BTreeMap<String, f64> {
    let mut words = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *words.entry(word.to_lowercase()).or_insert(0.0) += 1.0;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(question: &str, texts: &[&str]) -> Vec<usize> {
        rank(question, texts, 10).into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn rare_words_count_more_than_common_ones() {
        let texts = ["the cat sat on the mat", "the the the the", "the quokka smiled"];
        assert_eq!(order("the quokka", &texts)[0], 2);
    }

    #[test]
    fn case_and_punctuation_do_not_matter_and_strangers_are_left_out() {
        assert_eq!(order("Refund?", &["REFUND, within 30 days", "shipping"]), [0]);
        assert_eq!(order("grüße", &["Viele GRÜSSE", "viele Grüße"]), [1]);
        assert_eq!(order("", &["a"]), [0; 0]);
        assert_eq!(order("a", &[]), [0; 0]);
    }

    #[test]
    fn a_short_text_beats_a_long_one_with_the_same_word_and_ties_keep_their_order() {
        let long = format!("refund {}", "word ".repeat(200));
        assert_eq!(order("refund", &[&long, "refund now"]), [1, 0]);
        assert_eq!(order("same", &["same", "same", "same"]), [0, 1, 2]);
        assert_eq!(rank("same", &["same", "same", "same"], 2).len(), 2);
    }
}
