//! Small charts: bars stacked by family of state, and one share of a whole.

use maud::{Markup, html};

/// The height of the drawing; bars are scaled to the highest.
const HEIGHT: f64 = 64.0;
const STEP: f64 = 10.0;
const BAR: f64 = 8.0;

/// One bar: what it stands for, and how much of each family.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) parts: Vec<(&'static str, f64)>,
}

impl Bar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, amount)| amount).sum()
    }
}

/// Stacked bars side by side, all of the same scale.
pub(crate) fn stacked(title: &str, bars: &[Bar]) -> Markup {
    let highest = bars.iter().map(Bar::total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let width = STEP * bars.len() as f64;
    html! {
        svg.bars viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
            line.floor x1="0" x2=(width) y1=(HEIGHT) y2=(HEIGHT) {}
            @for (bar, place) in bars.iter().zip(0u32..) {
                g {
                    title { (bar.label) }
                    (stack(bar, f64::from(place) * STEP, HEIGHT / highest))
                    // So that an empty hour has a title, too.
                    rect.hit x=(f64::from(place) * STEP) y="0" width=(STEP) height=(HEIGHT) {}
                }
            }
        }
    }
}

fn stack(bar: &Bar, x: f64, scale: f64) -> Markup {
    let mut top = HEIGHT;
    html! {
        @for (family, amount) in &bar.parts {
            @let height = amount * scale;
            @let y = { top -= height; top };
            @if *amount > 0.0 {
                rect class=(family) x=(tenth(x + 1.0)) y=(tenth(y)) width=(BAR) height=(tenth(height)) {}
            }
        }
    }
}

/// How much of a limit is used up; more than all of it is drawn full and red.
pub(crate) fn share(used: f64, limit: f64) -> Markup {
    let part = if limit > 0.0 { (used / limit).clamp(0.0, 1.0) } else { 1.0 };
    let family = match part {
        part if part >= 1.0 => "bad",
        part if part >= 0.8 => "wait",
        _ => "busy",
    };
    html! {
        svg.share viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={ (tenth(part * 100.0)) "% used" } {
            rect.floor x="0" y="0" width="100" height="6" {}
            rect class=(family) x="0" y="0" width=(tenth(part * 100.0)) height="6" {}
        }
    }
}

pub(crate) fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_scaled_to_the_highest() {
        let bar = |good, bad| Bar { label: "x".into(), parts: vec![("good", good), ("bad", bad)] };
        let drawn = stacked("Runs", &[bar(3.0, 1.0), bar(0.0, 0.0)]).into_string();
        assert!(
            drawn.contains(r#"<rect class="good" x="1" y="16" width="8" height="48">"#),
            "{drawn}"
        );
        assert!(
            drawn.contains(r#"<rect class="bad" x="1" y="0" width="8" height="16">"#),
            "{drawn}"
        );
    }

    #[test]
    fn a_share_is_never_more_than_all() {
        assert!(share(5.0, 0.0).into_string().contains(r#"class="bad" x="0" y="0" width="100""#));
        assert!(share(9.0, 10.0).into_string().contains(r#"class="wait""#));
    }
}
