//! Calls of models that wait their turn: so many at a provider at once, and so much a minute.
//!
//! Each process counts for itself. A call waits inside its run, which stays at work and says what it waits for; dropping
//! it, as a cancel does, ends the wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use callboard_agents::{
    DeltaSink, Fault, Model, ModelError, ModelRef, ModelRequest, StopReason, Turn,
};
use callboard_engine::{Clock as _, SystemClock, Waiting};
use callboard_protocol::RunId;

/// Calls that may wait for one provider: more than runs are driven by default. Beyond it a run waits outside, for a time.
const MOST_WAITING: usize = 8192;
/// How long that is.
const COME_BACK: Duration = Duration::from_secs(90);
const MINUTE: f64 = 60.0;
/// A text has about one token for so many bytes. What the call really took is counted once it is known.
const BYTES_PER_TOKEN: usize = 4;

/// What one provider may be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProviderLimits {
    pub(crate) concurrency: Option<usize>,
    pub(crate) requests_per_minute: Option<u64>,
    pub(crate) tokens_per_minute: Option<u64>,
}

/// The models of a host behind the gates of their providers.
#[derive(Debug)]
pub(super) struct Limited<M> {
    models: M,
    gates: BTreeMap<String, Gate>,
    /// Learns who waits; known once there is an engine.
    waiting: OnceLock<Arc<Waiting>>,
}

#[derive(Debug)]
struct Gate {
    provider: String,
    places: Option<Semaphore>,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Room for those that wait.
    room: Semaphore,
    numbers: AtomicU64,
}

/// What may be taken in a minute, refilled evenly. It may be overdrawn; then the next one waits.
#[derive(Debug)]
struct Bucket {
    a_minute: f64,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    fn new(a_minute: u64) -> Self {
        let a_minute = a_minute as f64;
        Self { a_minute, state: Mutex::new((a_minute, Instant::now())) }
    }

    fn filled(&self) -> MutexGuard<'_, (f64, Instant)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(state.1).as_secs_f64() * self.a_minute / MINUTE;
        *state = ((state.0 + gained).min(self.a_minute), now);
        state
    }

    /// Takes so much, or answers how long to wait before asking again. What is more than a whole minute's is taken from a
    /// full bucket.
    fn take(&self, amount: f64) -> Result<(), Duration> {
        let mut state = self.filled();
        let wanted = amount.min(self.a_minute);
        if state.0 + 1e-6 >= wanted {
            state.0 -= amount;
            return Ok(());
        }
        let wait = (wanted - state.0) * MINUTE / self.a_minute;
        Err(Duration::from_secs_f64(wait).max(Duration::from_millis(1)))
    }

    /// Takes more, or gives some back, whatever there is.
    fn correct(&self, by: f64) {
        let mut state = self.filled();
        state.0 = (state.0 - by).min(self.a_minute);
    }
}

/// A call that waits. It is forgotten with the value.
struct Waits<'a> {
    waiting: Option<&'a Arc<Waiting>>,
    run: Option<&'a RunId>,
    number: u64,
}

impl Waits<'_> {
    fn for_limit(&self, limit: &str) {
        if let (Some(waiting), Some(run)) = (self.waiting, self.run) {
            waiting.call_waits(run, self.number, limit, SystemClock.now());
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let (Some(waiting), Some(run)) = (self.waiting, self.run) {
            waiting.call_goes_on(run, self.number);
        }
    }
}

impl Gate {
    fn new(provider: &str, limits: ProviderLimits) -> Self {
        Self {
            provider: provider.to_owned(),
            places: limits.concurrency.map(Semaphore::new),
            requests: limits.requests_per_minute.map(Bucket::new),
            tokens: limits.tokens_per_minute.map(Bucket::new),
            room: Semaphore::new(MOST_WAITING),
            numbers: AtomicU64::new(0),
        }
    }

    /// Takes one call's part of a bucket, when there is enough.
    async fn draw(&self, bucket: Option<&Bucket>, amount: f64, name: &str, waits: &Waits<'_>) {
        let Some(bucket) = bucket else { return };
        while let Err(wait) = bucket.take(amount) {
            waits.for_limit(&format!("providers.{}.{name}", self.provider));
            tokio::time::sleep(wait).await;
        }
    }
}

/// What is sent, in tokens, roughly.
fn foreseen(request: &ModelRequest) -> f64 {
    let said = serde_json::to_string(&request.messages).map_or(0, |text| text.len());
    let system = request.system.as_ref().map_or(0, String::len);
    ((said + system) / BYTES_PER_TOKEN + 1) as f64
}

impl<M> Limited<M> {
    pub(super) fn new(models: M, limits: &BTreeMap<String, ProviderLimits>) -> Self {
        let gates = limits.iter().map(|(name, it)| (name.clone(), Gate::new(name, *it)));
        Self { models, gates: gates.collect(), waiting: OnceLock::new() }
    }

    /// From here on it is said which runs wait.
    pub(super) fn tell(&self, waiting: &Arc<Waiting>) {
        // The first one stays: there is one engine.
        let _known = self.waiting.set(Arc::clone(waiting));
    }
}

#[async_trait]
impl<M: Model> Model for Limited<M> {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let Some(gate) = self.gates.get(&request.model.provider) else {
            return self.models.turn(request, deltas).await;
        };
        let Ok(room) = gate.room.try_acquire() else {
            let refused = ModelError::new(&gate.provider, Fault::Limited);
            return Err(ModelError { retry_after: Some(COME_BACK), ..refused });
        };
        let number = gate.numbers.fetch_add(1, Ordering::Relaxed);
        let waits = Waits { waiting: self.waiting.get(), run: request.run.as_ref(), number };
        let _place = match &gate.places {
            None => None,
            Some(places) => match places.try_acquire() {
                Ok(place) => Some(place),
                Err(_) => {
                    waits.for_limit(&format!("limits.concurrency.providers.{}", gate.provider));
                    // It is never closed; were it, nothing would be limited.
                    places.acquire().await.ok()
                }
            },
        };
        let tokens = foreseen(request);
        gate.draw(gate.requests.as_ref(), 1.0, "requests_per_minute", &waits).await;
        gate.draw(gate.tokens.as_ref(), tokens, "tokens_per_minute", &waits).await;
        drop((waits, room));
        let turn = self.models.turn(request, deltas).await;
        if let (Some(bucket), Ok(turn)) = (&gate.tokens, &turn)
            && let Some(usage) = &turn.usage
        {
            bucket.correct((usage.input + usage.output) as f64 - tokens);
        }
        turn
    }

    fn rehearse(&self, model: &ModelRef, call_prefix: &str, turns: usize) -> Vec<StopReason> {
        self.models.rehearse(model, call_prefix, turns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use callboard_agents::{Message, TokenUsage};
    use callboard_engine::{QueuePlace, WaitReason};
    use futures_util::future::join_all;

    use super::*;

    /// Takes a second for each answer, of fifty tokens.
    #[derive(Debug, Default)]
    struct Slow {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl Model for Slow {
        async fn turn(&self, _: &ModelRequest, _: &mut dyn DeltaSink) -> Result<Turn, ModelError> {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.now.fetch_sub(1, Ordering::Relaxed);
            let usage = TokenUsage { input: 25, output: 25, cache_read: None, cache_write: None };
            Ok(Turn {
                text: "yes".to_owned(),
                thinking: String::new(),
                tool_calls: Vec::new(),
                stop: StopReason::Stop,
                usage: Some(usage),
                provider_request_id: None,
            })
        }
    }

    fn request(provider: &str, run: &str) -> ModelRequest {
        ModelRequest {
            model: ModelRef { provider: provider.to_owned(), model: "m".to_owned() },
            system: None,
            messages: vec![Message::User { text: "well?".to_owned() }],
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: 10,
            temperature: None,
            seed: None,
            idempotency_key: String::new(),
            key: None,
            call_prefix: String::new(),
            run: Some(run.into()),
        }
    }

    fn limited(limits: ProviderLimits) -> Limited<Slow> {
        Limited::new(Slow::default(), &BTreeMap::from([("acme".to_owned(), limits)]))
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_calls_are_under_way_and_the_others_say_what_they_wait_for() {
        let limits = ProviderLimits { concurrency: Some(2), ..ProviderLimits::default() };
        let (models, waiting) = (limited(limits), Arc::new(Waiting::default()));
        models.tell(&waiting);
        let calls = (0..5).map(|number| {
            let models = &models;
            async move { models.turn(&request("acme", &format!("r{number}")), &mut ()).await }
        });
        let look = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let why = |run: &str| waiting.explain(&run.into(), true, &QueuePlace::default(), None);
            assert_eq!(why("r0"), None);
            let wait = why("r4").unwrap();
            assert_eq!(wait.reason, WaitReason::ProviderLimit);
            assert_eq!(wait.limit.as_deref(), Some("limits.concurrency.providers.acme"));
            assert_eq!(waiting.calls().0, 3);
        };
        let (answers, ()) = tokio::join!(join_all(calls), look);
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(models.models.most.load(Ordering::Relaxed), 2);
        assert_eq!(waiting.calls().0, 0);
        // Others have no gate.
        let free = (0..3).map(|_| {
            let models = &models;
            async move { models.turn(&request("other", "r"), &mut ()).await }
        });
        join_all(free).await;
        assert_eq!(models.models.most.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_has_so_many_calls_and_tokens() {
        let began = Instant::now();
        let requests = ProviderLimits { requests_per_minute: Some(2), ..ProviderLimits::default() };
        let models = limited(requests);
        for _ in 0..3 {
            models.turn(&request("acme", "r"), &mut ()).await.unwrap();
        }
        // Two at once, and a third when half a minute has gained it.
        assert_eq!(began.elapsed().as_secs(), 31);
        let began = Instant::now();
        let tokens = ProviderLimits { tokens_per_minute: Some(60), ..ProviderLimits::default() };
        let models = limited(tokens);
        for _ in 0..2 {
            models.turn(&request("acme", "r"), &mut ()).await.unwrap();
        }
        assert!(began.elapsed().as_secs() < 10, "what is left is enough");
        models.turn(&request("acme", "r"), &mut ()).await.unwrap();
        assert!((30..90).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_waits_no_more() {
        let limits = ProviderLimits { concurrency: Some(1), ..ProviderLimits::default() };
        let (models, waiting) = (limited(limits), Arc::new(Waiting::default()));
        models.tell(&waiting);
        let (one, two) = (request("acme", "r1"), request("acme", "r2"));
        let (mut nobody, mut none) = ((), ());
        let first = models.turn(&one, &mut nobody);
        let second = tokio::time::timeout(Duration::from_millis(100), models.turn(&two, &mut none));
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok() && second.is_err());
        assert_eq!(waiting.calls().0, 0);
        assert!(models.turn(&two, &mut ()).await.is_ok(), "its place is free");
    }
}
