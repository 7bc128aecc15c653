//! Which model an invocation starts with, and which one it falls back to when that keeps failing.

use callboard_core::{KeptModels, ModelName};
use callboard_protocol::ModelClass;

use crate::model::{ModelRef, ResolvedModel};

/// What the log knows goes before what the host is configured with today. Nobody is asked again who was left, and a
/// run's own key goes to no provider but the one that it began with.
pub(super) fn keeping(
    resolved: ResolvedModel,
    class: ModelClass,
    kept: &KeptModels,
) -> ResolvedModel {
    let decided = kept.classes.get(class.as_str()).filter(|_| !resolved.is_wish);
    let first = kept.began.as_ref().or(decided).map(named);
    let model = first.unwrap_or_else(|| resolved.model.clone());
    let mut fallbacks: Vec<ModelRef> = kept.taken.iter().map(named).collect();
    let asked: Vec<&ModelRef> = std::iter::once(&model).chain(&fallbacks).collect();
    let last = resolved.fallbacks.iter().rposition(|it| asked.contains(&it));
    let rest = resolved.fallbacks[last.map_or(0, |place| place + 1)..].iter();
    let has_own_key = resolved.credential_ref.is_some();
    fallbacks.extend(rest.filter(|it| !has_own_key || it.provider == model.provider).cloned());
    ResolvedModel { model, fallbacks, ..resolved }
}

fn named((provider, model): &ModelName) -> ModelRef {
    ModelRef { provider: provider.clone(), model: model.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelRef {
        text.parse().unwrap()
    }

    fn name(text: &str) -> ModelName {
        let ModelRef { provider, model } = model(text);
        (provider, model)
    }

    fn resolved() -> ResolvedModel {
        ResolvedModel {
            model: model("p/one"),
            credential_ref: None,
            fallbacks: vec![model("p/two"), model("q/three")],
            is_wish: false,
        }
    }

    fn order(resolved: ResolvedModel, kept: &KeptModels) -> Vec<String> {
        let found = keeping(resolved, ModelClass::Coding, kept);
        [found.model].iter().chain(&found.fallbacks).map(ToString::to_string).collect()
    }

    fn coding(to: &str) -> KeptModels {
        let classes = [("coding".to_owned(), name(to))].into();
        KeptModels { classes, ..KeptModels::default() }
    }

    #[test]
    fn models_are_asked_in_the_operators_order() {
        assert_eq!(order(resolved(), &KeptModels::default()), ["p/one", "p/two", "q/three"]);
    }

    #[test]
    fn a_class_that_was_left_stays_left_in_the_run() {
        assert_eq!(order(resolved(), &coding("p/two")), ["p/two", "q/three"]);
        assert_eq!(order(resolved(), &coding("gone/model")), ["gone/model", "p/two", "q/three"]);
        let classes = [("writing".to_owned(), name("p/two"))].into();
        let other = KeptModels { classes, ..KeptModels::default() };
        assert_eq!(order(resolved(), &other)[0], "p/one");
        let wish = ResolvedModel { fallbacks: Vec::new(), is_wish: true, ..resolved() };
        assert_eq!(order(wish, &coding("p/two")), ["p/one"]);
    }

    #[test]
    fn a_visit_goes_on_as_it_began_whatever_others_decided_meanwhile() {
        let kept = KeptModels { began: Some(name("p/one")), ..coding("q/three") };
        assert_eq!(order(resolved(), &kept), ["p/one", "p/two", "q/three"]);
        let kept = KeptModels { taken: vec![name("old/model"), name("p/two")], ..kept };
        assert_eq!(order(resolved(), &kept), ["p/one", "old/model", "p/two", "q/three"]);
    }

    #[test]
    fn a_runs_own_key_stays_with_the_provider_that_it_began_with() {
        let with_key = || ResolvedModel { credential_ref: Some("own".into()), ..resolved() };
        let began = |text: &str| KeptModels { began: Some(name(text)), ..KeptModels::default() };
        assert_eq!(order(with_key(), &began("q/old")), ["q/old", "q/three"]);
        assert_eq!(order(with_key(), &began("gone/model")), ["gone/model"]);
        assert_eq!(order(with_key(), &coding("p/two")), ["p/two"]);
    }
}
