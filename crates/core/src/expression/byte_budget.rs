//! What the steps of one expression may make together, in bytes, and what they may look at, in units of work.

use std::fmt::{self, Write as _};

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::evaluation::{is_lazy, wrong};
use crate::bounds::HEAVIEST;
use crate::work::{self, Work};

/// What a value costs beside its text.
const EACH: usize = 32;
/// The widest field of a format, whose text may name any.
const WIDEST_FIELD: usize = 999;

pub(super) struct ByteBudget<'w> {
    left: usize,
    work: &'w mut Work,
}

impl<'w> ByteBudget<'w> {
    pub(super) fn new(work: &'w mut Work) -> Self {
        Self { left: HEAVIEST, work }
    }

    pub(super) fn pay(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(too_large)?;
        self.work(bytes as u64)
    }

    pub(super) fn work(&mut self, units: u64) -> Result<(), Error> {
        self.work.spend(units).map_err(|error| wrong(error.to_string()))
    }

    /// Counts what it takes to go through a value once.
    pub(super) fn walk(&mut self, value: &Value) -> Result<(), Error> {
        let text = value.as_str().map_or(0, str::len);
        self.work(work::EACH + text as u64)?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                value.try_iter()?.try_for_each(|item| self.walk(&item))
            }
            ValueKind::Map => value.try_iter()?.try_for_each(|key| {
                self.walk(&key)?;
                self.walk(&value.get_item(&key)?)
            }),
            _ => Ok(()),
        }
    }

    /// Counts what a filter does with its arguments, the first of which is the value that it is applied to: it goes
    /// through that once, or as often as sorting takes, and for each item of it through all the others.
    pub(super) fn work_for_filter(&mut self, name: &str, arguments: &[Value]) -> Result<(), Error> {
        let Some((first, others)) = arguments.split_first() else { return Ok(()) };
        let before = self.work.spent();
        self.walk(first)?;
        let once = self.work.spent() - before;
        let items = match (name, first.as_str()) {
            // Each sign is compared with all that are to be cut off.
            ("trim", Some(text)) => text.len().max(1) as u64,
            (_, Some(_)) => 1,
            (_, None) => first.len().unwrap_or(1).max(1) as u64,
        };
        if let "sort" | "dictsort" | "groupby" | "unique" = name {
            self.work(once.saturating_mul(u64::from(items.ilog2())))?;
        }
        let before = self.work.spent();
        others.iter().try_for_each(|argument| self.walk(argument))?;
        let others = self.work.spent() - before;
        self.work(others.saturating_mul(items - 1))
    }

    /// Pays for a copy of a value.
    pub(super) fn pay_for(&mut self, value: &Value) -> Result<(), Error> {
        let mut weight = EACH;
        match value.kind() {
            ValueKind::String => weight += value.as_str().map_or(0, str::len),
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.pay_for(&item)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    self.pay_for(&value.get_item(&key)?)?;
                    self.pay_for(&key)?;
                }
            }
            _ => {}
        }
        self.pay(weight)
    }

    /// Pays for `text * times` and `list * times`, whichever side is which.
    pub(super) fn pay_for_repetition(&mut self, left: &Value, right: &Value) -> Result<(), Error> {
        let (value, times) = if repeats(left) { (left, right) } else { (right, left) };
        let Some(times) = times.as_usize().filter(|_| repeats(value)) else { return Ok(()) };
        let before = self.left;
        self.pay_for(value)?;
        let weight = before - self.left;
        self.pay(weight.saturating_mul(times))
    }

    /// The text of some values, one after another.
    pub(super) fn text(&mut self, values: &[&Value]) -> Result<Value, Error> {
        let mut sheet = Sheet { text: String::new(), left: self.left };
        for value in values {
            write!(sheet, "{value}").map_err(|_| too_large())?;
        }
        self.pay(EACH + sheet.text.len())?;
        Ok(sheet.text.into())
    }

    /// Makes a list of what would only be made when it is asked for, perhaps again and again.
    pub(super) fn settle(&mut self, value: Value) -> Result<Value, Error> {
        if !is_lazy(&value) {
            return Ok(value);
        }
        let mut items = Vec::new();
        for item in value.try_iter()? {
            self.pay(EACH)?;
            items.push(item);
        }
        Ok(items.into())
    }

    /// Pays for what a filter can make of its arguments, the first of which is the value that it is applied to.
    pub(super) fn pay_for_filter(
        &mut self,
        name: &str,
        arguments: &mut [Value],
    ) -> Result<(), Error> {
        match name {
            // These give a part of the value, or a number.
            "length" | "count" | "default" | "d" | "first" | "last" | "int" | "float" | "bool"
            | "abs" | "round" | "attr" | "min" | "max" => Ok(()),
            "upper" | "lower" | "title" | "capitalize" | "trim" | "replace" | "split" | "lines"
            | "indent" | "format" | "escape" | "e" | "safe" => {
                self.spell_out(arguments)?;
                self.pay(texts_of(name, arguments)?)
            }
            "string" => self.spell_out(arguments),
            "join" => {
                let items = arguments.first().and_then(Value::len).unwrap_or_default();
                let joiner = arguments.get(1..).into_iter().flatten().map(longest).max();
                self.spell_out(&mut arguments.iter().take(1).cloned().collect::<Vec<_>>())?;
                self.pay(items.saturating_mul(joiner.unwrap_or_default()))
            }
            "reverse" => arguments.iter().try_for_each(|argument| self.pay_for(argument)),
            "pprint" => Err(wrong("filter pprint is not offered".into())),
            _ => {
                let items = arguments.first().and_then(Value::len).unwrap_or_default();
                let before = self.left;
                arguments.iter().skip(1).try_for_each(|argument| self.pay_for(argument))?;
                let others = before - self.left;
                // Each item may be compared with all that is beside it.
                self.pay(items.saturating_mul(EACH + others))?;
                if let "batch" | "slice" = name {
                    self.pay(widest(arguments).saturating_mul(2 * EACH))?;
                }
                arguments.iter().take(1).try_for_each(|argument| self.pay_for(argument))
            }
        }
    }

    /// Puts texts in place of lists and objects, as the filters of texts would themselves.
    fn spell_out(&mut self, arguments: &mut [Value]) -> Result<(), Error> {
        for argument in arguments {
            let is_many =
                matches!(argument.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map);
            if is_many && !argument.is_kwargs() {
                *argument = self.text(&[&*argument])?;
            }
        }
        Ok(())
    }
}

/// How many bytes a filter of texts can make.
fn texts_of(name: &str, arguments: &[Value]) -> Result<usize, Error> {
    let text = |place: usize| arguments.get(place).and_then(Value::as_str);
    let value = text(0).unwrap_or_default();
    let (from, to) = (text(1), arguments.get(2).map_or(0, longest));
    let found = |part: Option<&str>| match part {
        None => value.split_whitespace().count(),
        Some("") => value.chars().count() + 2,
        Some(part) => value.matches(part).count() + 1,
    };
    let more = match name {
        "replace" => found(Some(from.unwrap_or_default())).saturating_mul(to),
        "split" => found(from).saturating_mul(EACH),
        "lines" => found(Some("\n")).saturating_mul(EACH),
        "indent" => found(Some("\n")).saturating_mul(widest(arguments)),
        "format" => {
            let is_wide = value.split(|sign: char| !sign.is_ascii_digit()).any(|it| it.len() > 3);
            if is_wide || value.contains('*') {
                return Err(wrong(format!("a field of a format is at most {WIDEST_FIELD} wide")));
            }
            let fields = value.matches('%').count();
            let longest = arguments.iter().skip(1).map(longest).max().unwrap_or_default();
            fields.saturating_mul(WIDEST_FIELD + longest)
        }
        // Six bytes for a quotation mark.
        "escape" | "e" => value.len().saturating_mul(5),
        _ => 0,
    };
    Ok(more.saturating_add(EACH + value.len()))
}

fn repeats(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable)
}

/// The length of the longest text that an argument brings, by name or by place.
fn longest(argument: &Value) -> usize {
    let own = argument.as_str().map_or(EACH, str::len);
    let named = argument.try_iter().into_iter().flatten().filter_map(|key| {
        let named = argument.is_kwargs().then(|| argument.get_item(&key).ok())??;
        named.as_str().map(str::len)
    });
    named.max().unwrap_or_default().max(own)
}

/// The largest number that the arguments bring, by name or by place.
fn widest(arguments: &[Value]) -> usize {
    let widths = arguments.iter().skip(1).flat_map(|argument| {
        let keys = argument.is_kwargs().then(|| argument.try_iter().ok()).flatten();
        let named = keys.into_iter().flatten().filter_map(|key| argument.get_item(&key).ok());
        named.chain([argument.clone()]).filter_map(|width| width.as_usize())
    });
    widths.max().unwrap_or(4)
}

/// A text that ends where nothing is left to write it with.
struct Sheet {
    text: String,
    left: usize,
}

impl fmt::Write for Sheet {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}

fn too_large() -> Error {
    wrong(format!("makes more than {HEAVIEST} bytes"))
}
