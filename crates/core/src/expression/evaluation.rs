//! Expressions, one step at a time and within two budgets: what they make, in bytes, and what they look at, in work.
//!
//! minijinja parses them and knows what every operator and filter means. It counts steps, though, and one step may
//! make gigabytes or go through millions of values: so each is taken from here, after that was paid for.

use std::collections::BTreeMap;

use minijinja::machinery::ast::{
    BinOp, BinOpKind, CallArg, Compare, CompareOpKind, Expr, Map, Slice, UnaryOpKind,
};
use minijinja::machinery::parse_expr;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, context};

use super::byte_budget::ByteBudget;
use super::names::{Below, Names, Place};
use crate::bounds::FULLEST;
use crate::work::Work;

/// Bytes of one expression: the parser's tree is as deep as a chain of operators is long.
const LONGEST: usize = 4_096;
/// Steps that one expression may take; a definition is a stranger's program.
const STEPS: u32 = 10_000;
/// How deep steps may be nested, each within the one before it.
const LEVELS: u32 = 200;
/// Units of work that it takes to begin: the environment with all its filters is made anew.
const BEGINNING: u64 = 16_384;
/// Those of a step by itself, of an operation, which is compiled, and of a call of a filter or a test.
const EACH_STEP: u64 = 64;
const EACH_OPERATION: u64 = 1_024;
const EACH_CALL: u64 = 256;
/// The functions that expressions may call.
const FUNCTIONS: [&str; 3] = ["range", "dict", "namespace"];

pub(super) fn parse(expression: &str) -> Result<Expr<'_>, Error> {
    if expression.len() > LONGEST {
        return Err(wrong(format!("an expression has at most {LONGEST} bytes")));
    }
    parse_expr(expression)
}

/// The JSON value of an expression; null where it has none.
pub(super) fn value_of(
    expression: &str,
    names: &Names<'_>,
    work: &mut Work,
) -> Result<serde_json::Value, Error> {
    let parsed = parse(expression)?;
    let mut budget = ByteBudget::new(work);
    budget.work(BEGINNING)?;
    let mut evaluation = Evaluation {
        environment: Environment::new(),
        names,
        known: BTreeMap::new(),
        budget,
        unread: FULLEST,
        steps: 0,
        level: 0,
    };
    let value = evaluation.value(&parsed)?;
    evaluation.budget.walk(&value)?;
    match value.is_undefined() {
        true => Ok(serde_json::Value::Null),
        false => serde_json::to_value(value)
            .map_err(|error| wrong(format!("there is no JSON value of it: {error}"))),
    }
}

/// What a part of an expression stands for.
enum Found<'a> {
    Place(Place<'a>),
    Value(Value),
}

struct Evaluation<'a> {
    environment: Environment<'static>,
    names: &'a Names<'a>,
    /// What was read of the names, by its place, so that each is copied once.
    known: BTreeMap<usize, Value>,
    budget: ByteBudget<'a>,
    /// What may still be read of the names.
    unread: usize,
    steps: u32,
    level: u32,
}

impl<'a> Evaluation<'a> {
    fn value(&mut self, expr: &Expr<'_>) -> Result<Value, Error> {
        let found = self.find(expr)?;
        self.read(found)
    }

    /// Follows names as far as they lead without reading what they stand for.
    fn find(&mut self, expr: &Expr<'_>) -> Result<Found<'a>, Error> {
        self.level += 1;
        self.steps += 1;
        if self.level > LEVELS || self.steps > STEPS {
            return Err(wrong("takes too many steps".into()));
        }
        self.budget.work(EACH_STEP)?;
        let found = match expr {
            Expr::Var(it) => match self.names.get(it.id) {
                Some(place) => Found::Place(place),
                None => Found::Value(Value::UNDEFINED),
            },
            Expr::GetAttr(it) => {
                let outer = self.find(&it.expr)?;
                match below(&outer, |place| place.field(it.name)) {
                    Some(found) => found,
                    None => Found::Value(self.read(outer)?.get_attr(it.name)?),
                }
            }
            Expr::GetItem(it) => {
                let outer = self.find(&it.expr)?;
                let key = self.value(&it.subscript_expr)?;
                match below(&outer, |place| place.item(&key)) {
                    Some(found) => found,
                    None => {
                        let outer = self.read(outer)?;
                        // A place in a text is found by counting; a key is compared with others.
                        if outer.as_str().is_some() {
                            self.budget.walk(&outer)?;
                        }
                        self.budget.walk(&key)?;
                        Found::Value(outer.get_item(&key)?)
                    }
                }
            }
            _ => Found::Value(self.step(expr)?),
        };
        self.level -= 1;
        Ok(found)
    }

    fn step(&mut self, expr: &Expr<'_>) -> Result<Value, Error> {
        match expr {
            Expr::Const(constant) => Ok(constant.value.clone()),
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.value(expr),
            Expr::Slice(it) => self.slice(it),
            Expr::UnaryOp(it) => {
                let operator = match it.op {
                    UnaryOpKind::Not => "not a",
                    UnaryOpKind::Neg => "-a",
                };
                let value = self.value(&it.expr)?;
                self.operate_on_two(operator, value, Value::UNDEFINED)
            }
            Expr::BinOp(it) => self.binary(it),
            Expr::Compare(it) => self.compare(it),
            Expr::IfExpr(it) => match (self.value(&it.test_expr)?.is_true(), &it.false_expr) {
                (true, _) => self.value(&it.true_expr),
                (false, Some(other)) => self.value(other),
                (false, None) => Ok(Value::UNDEFINED),
            },
            Expr::Filter(it) => {
                let value = it.expr.as_ref().map(|value| self.value(value)).transpose()?;
                let arguments = self.arguments(value, &it.args)?;
                self.filter(it.name, arguments)
            }
            Expr::Test(it) => {
                let value = self.value(&it.expr)?;
                let arguments = self.arguments(Some(value), &it.args)?;
                self.budget.work(EACH_CALL)?;
                arguments.iter().try_for_each(|argument| self.budget.walk(argument))?;
                let holds = self.environment.empty_state().perform_test(it.name, &arguments);
                holds.map(Value::from).map_err(|error| named(&error, "test", it.name))
            }
            Expr::Call(it) => self.call(&it.expr, &it.args),
            Expr::List(it) => self.list(&it.items),
            Expr::Tuple(it) => self.list(&it.items),
            Expr::Map(it) => self.map(it),
        }
    }

    fn slice(&mut self, it: &Slice<'_>) -> Result<Value, Error> {
        let value = self.value(&it.expr)?;
        self.budget.pay_for(&value)?;
        let mut bound = |bound: &Option<Expr<'_>>| match bound {
            Some(bound) => self.value(bound),
            None => Ok(Value::from(())),
        };
        let (start, stop, step) = (bound(&it.start)?, bound(&it.stop)?, bound(&it.step)?);
        let sliced = self.operate("a[b:c:d]", [value, start, stop, step])?;
        self.budget.settle(sliced)
    }

    fn compare(&mut self, it: &Compare<'_>) -> Result<Value, Error> {
        let mut left = self.value(&it.expr)?;
        for next in &it.ops {
            let right = self.value(&next.expr)?;
            self.budget.walk(&left)?;
            self.budget.walk(&right)?;
            if !self.operate_on_two(comparison(next.op), left, right.clone())?.is_true() {
                return Ok(false.into());
            }
            left = right;
        }
        Ok(true.into())
    }

    fn map(&mut self, it: &Map<'_>) -> Result<Value, Error> {
        let mut fields = BTreeMap::new();
        for (key, value) in it.keys.iter().zip(&it.values) {
            let (key, value) = (self.value(key)?, self.value(value)?);
            self.budget.pay_for(&key)?;
            self.budget.pay_for(&value)?;
            fields.insert(key, value);
        }
        Ok(Value::from_object(fields))
    }

    fn read(&mut self, found: Found<'a>) -> Result<Value, Error> {
        let place = match found {
            Found::Place(place) => place,
            Found::Value(value) => return Ok(value),
        };
        if let Some(known) = self.known.get(&place.address()) {
            return Ok(known.clone());
        }
        let weight = place.weight();
        self.budget.work(weight as u64)?;
        self.unread = self
            .unread
            .checked_sub(weight)
            .ok_or_else(|| wrong(format!("reads more than {FULLEST} bytes")))?;
        let value = Value::from(Serde(&place));
        self.known.insert(place.address(), value.clone());
        Ok(value)
    }

    fn binary(&mut self, it: &BinOp<'_>) -> Result<Value, Error> {
        let left = self.value(&it.left)?;
        match (it.op, left.is_true()) {
            (BinOpKind::ScAnd, false) | (BinOpKind::ScOr, true) => return Ok(left),
            (BinOpKind::ScAnd, true) | (BinOpKind::ScOr, false) => return self.value(&it.right),
            _ => {}
        }
        let right = self.value(&it.right)?;
        self.budget.walk(&left)?;
        self.budget.walk(&right)?;
        let operator = match it.op {
            BinOpKind::Concat => return self.budget.text(&[&left, &right]),
            BinOpKind::Add if left.as_str().is_some() && right.as_str().is_some() => {
                return self.budget.text(&[&left, &right]);
            }
            BinOpKind::Mul => {
                self.budget.pay_for_repetition(&left, &right)?;
                "a * b"
            }
            BinOpKind::Add => "a + b",
            BinOpKind::Sub => "a - b",
            BinOpKind::Div => "a / b",
            BinOpKind::FloorDiv => "a // b",
            BinOpKind::Rem => "a % b",
            BinOpKind::Pow => "a ** b",
            BinOpKind::Eq => "a == b",
            BinOpKind::Ne => "a != b",
            BinOpKind::Lt => "a < b",
            BinOpKind::Lte => "a <= b",
            BinOpKind::Gt => "a > b",
            BinOpKind::Gte => "a >= b",
            BinOpKind::In => "a in b",
            BinOpKind::ScAnd => "a and b",
            BinOpKind::ScOr => "a or b",
        };
        let made = self.operate_on_two(operator, left, right)?;
        self.budget.settle(made)
    }

    fn list(&mut self, items: &[Expr<'_>]) -> Result<Value, Error> {
        let mut made = Vec::new();
        for item in items {
            let item = self.value(item)?;
            self.budget.pay_for(&item)?;
            made.push(item);
        }
        Ok(made.into())
    }

    fn call(&mut self, callee: &Expr<'_>, arguments: &[CallArg<'_>]) -> Result<Value, Error> {
        let name = match callee {
            Expr::Var(it) if FUNCTIONS.contains(&it.id) => it.id,
            _ => return Err(Error::new(ErrorKind::UnknownFunction, "there is no such function")),
        };
        let arguments = self.arguments(None, arguments)?;
        for argument in &arguments {
            self.budget.pay_for(argument)?;
        }
        let function = self.environment.globals().find(|(known, _)| *known == name);
        let function = function.map(|(_, function)| function).unwrap_or_default();
        let made = function.call(&mut self.environment.empty_state(), &arguments)?;
        self.budget.settle(made)
    }

    fn arguments(
        &mut self,
        first: Option<Value>,
        arguments: &[CallArg<'_>],
    ) -> Result<Vec<Value>, Error> {
        let mut values = Vec::from_iter(first);
        let mut named = Vec::new();
        for argument in arguments {
            match argument {
                CallArg::Pos(value) => values.push(self.value(value)?),
                CallArg::Kwarg(name, value) => named.push((*name, self.value(value)?)),
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
                    return Err(wrong("arguments cannot be unpacked".into()));
                }
            }
        }
        if !named.is_empty() {
            values.push(Kwargs::from_iter(named).into());
        }
        Ok(values)
    }

    fn filter(&mut self, name: &str, mut arguments: Vec<Value>) -> Result<Value, Error> {
        if name == "map"
            && let Some(inner) = arguments.get(1).and_then(Value::as_str).map(str::to_owned)
        {
            let mut made = Vec::new();
            for item in arguments[0].try_iter()? {
                let rest = arguments[2..].iter().cloned();
                let item = self.filter(&inner, std::iter::once(item).chain(rest).collect())?;
                self.budget.pay_for(&item)?;
                made.push(item);
            }
            return Ok(made.into());
        }
        self.budget.work(EACH_CALL)?;
        self.budget.work_for_filter(name, &arguments)?;
        self.budget.pay_for_filter(name, &mut arguments)?;
        let made = self.environment.empty_state().apply_filter(name, &arguments);
        self.budget.settle(made.map_err(|error| self::named(&error, "filter", name))?)
    }

    fn operate_on_two(
        &mut self,
        operation: &str,
        left: Value,
        right: Value,
    ) -> Result<Value, Error> {
        self.operate(operation, [left, right, Value::UNDEFINED, Value::UNDEFINED])
    }

    fn operate(&mut self, operation: &str, [a, b, c, d]: [Value; 4]) -> Result<Value, Error> {
        self.budget.work(EACH_OPERATION)?;
        self.environment.compile_expression(operation)?.eval(context! { a, b, c, d })
    }
}

/// What is below a place, as far as that can be said without reading it.
fn below<'a>(outer: &Found<'a>, look: impl FnOnce(&Place<'a>) -> Below<'a>) -> Option<Found<'a>> {
    let Found::Place(place) = outer else { return None };
    match look(place) {
        Below::Place(place) => Some(Found::Place(place)),
        Below::Nothing => Some(Found::Value(Value::UNDEFINED)),
        Below::Unclear => None,
    }
}

fn comparison(operator: CompareOpKind) -> &'static str {
    match operator {
        CompareOpKind::Eq => "a == b",
        CompareOpKind::Ne => "a != b",
        CompareOpKind::Lt => "a < b",
        CompareOpKind::Lte => "a <= b",
        CompareOpKind::Gt => "a > b",
        CompareOpKind::Gte => "a >= b",
        CompareOpKind::In => "a in b",
        CompareOpKind::NotIn => "a not in b",
    }
}

fn named(error: &Error, what: &str, name: &str) -> Error {
    Error::new(error.kind(), format!("{what} {name}: {error}"))
}

pub(super) fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Whether minijinja would go through the value's items only when it is asked for them.
pub(super) fn is_lazy(value: &Value) -> bool {
    value.kind() == ValueKind::Iterable
}
