//! Turns a bearer token into an [`Identity`]. All threads share it, it never waits, and a reload replaces all it knows.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};
use tidegate_machines::IdSpace;
use tidegate_machines::TimeMs;
use tidegate_roster::Roster;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::acl::ClientRights;
use super::cursor::CursorSeal;
use super::grant::Grant;
use super::hook::{Ask, Asking, Granted, HOOK_WAITING_MAX, Hook, HookFigures, HookQuestion, HookSettings, Hooked};
use super::identity::{Identity, Rights};
use super::login::{Attempt, Begun, IssuedToken, LoginError, LoginLimits, Logins, Waiter};
use super::password::PasswordHash;
use super::principals::{Principals, TopicAccess, User};
use super::provider::{Jwks, ProviderKeys, ProviderSettings, Refused, Template};
use super::quota::{Exceeded, QuotaLimits};
use super::roster::{InForce, tell_of_hidden, together};
use super::secret::Secret;
use super::signing::{SigningKey, SigningKeySettings};
use super::strangers::{HeldBytes, StrangerLimits};
use super::token::{Claims, Signer};

/// Everything that decides who may come in.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// People, who log in with a password.
    pub users: Vec<UserSettings>,
    /// Programs, which send a fixed token.
    pub services: Vec<ServiceSettings>,
    /// With what services sign requests.
    pub signing_keys: Vec<SigningKeySettings>,
    /// Who else signs people in.
    pub identity_providers: Vec<Arc<ProviderSettings>>,
    /// What decides on users who are not listed.
    pub auth_hook: Option<Arc<HookSettings>>,
    /// Key that signs tokens.
    pub secret: Secret,
    /// How long a log-in is good for.
    pub token_ttl: Duration,
    /// Whether a connection of MQTT or of the binary port ends when the token that was shown on it expires.
    pub expiry_ends_connections: bool,
    /// How many log-ins are worked on.
    pub login_limits: LoginLimits,
    /// Who may use which topics of MQTT.
    pub topics: TopicAccess,
    /// What each viewer may use up.
    pub viewer_quota: QuotaLimits,
    /// What each service may use up that has no bounds of its own.
    pub service_quota: QuotaLimits,
    /// What services, and users of role service, may do at most that are made through the API.
    pub api_grants: Vec<Grant>,
    /// The wallets that viewers may have at most that are made through the API, by the claim
    /// [`USER_CLAIM`](super::hook::USER_CLAIM).
    pub api_wallets: Vec<Template>,
    /// What those of one address may use up who have not shown a token.
    pub strangers: StrangerLimits,
}

/// A person.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// Log-in name; of a viewer, the name of the id space, too.
    pub name: Box<str>,
    /// Hash of the password.
    pub password_hash: PasswordHash,
    /// What they may do.
    pub rights: Rights,
}

/// A program.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// Name, for logs.
    pub name: Box<str>,
    /// SHA-256 of the token.
    pub token_sha256: [u8; 32],
    /// What it may do.
    pub rights: Rights,
    /// In which space its ids are unique.
    pub id_space: IdSpace,
    /// What it may use up; `None` for what services may.
    pub quota: Option<QuotaLimits>,
}

/// Why a request is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No token.
    #[error("send a token as `Authorization: Bearer TOKEN`; POST /v1/login gives one")]
    Missing,
    /// The token was not signed here, or its user was removed or has a new password.
    #[error("the token is not valid; POST /v1/login, or the identity provider, gives a new one")]
    Invalid,
    /// It was good once.
    #[error("the token has expired; POST /v1/login, or the identity provider, gives a new one")]
    Expired,
    /// It is of an identity provider, and no good.
    #[error("{0}")]
    Refused(Refused),
    /// Too many tokens that were no good came from the same address.
    #[error("{0}")]
    TooMany(Exceeded),
}

/// A caller and until when the token behind them is good.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who.
    pub identity: Identity,
    /// First second since the epoch at which the token is no longer good; `u64::MAX` for services.
    pub expires_at_s: u64,
}

/// Knows all users and services. Shared by all threads; a reload may replace what it knows at any time.
pub struct Authenticator {
    principals: Arc<ArcSwap<Principals>>,
    signer: Signer,
    cursors: CursorSeal,
    logins: Arc<Logins>,
    /// To whoever asks the hook.
    questions: mpsc::Sender<HookQuestion>,
    /// Until somebody takes them.
    asked: Mutex<Option<mpsc::Receiver<HookQuestion>>>,
    figures: Arc<HookFigures>,
    /// When the clock of log-ins began.
    since: Instant,
    /// How often a key of a provider went.
    keys_gone: AtomicU64,
    /// Is told of each reload.
    reloaded: Notify,
    /// What the configuration says, which the roster stands beside. Who replaces either holds it.
    configured: Mutex<AuthSettings>,
    /// The roster that is in force, for those who wait for a change.
    roster: watch::Sender<Option<Arc<Roster>>>,
}

impl Authenticator {
    /// Takes the settings and starts the threads that check passwords.
    pub fn new(settings: AuthSettings) -> Authenticator {
        let (questions, asked) = mpsc::channel(HOOK_WAITING_MAX);
        Authenticator {
            questions,
            asked: Mutex::new(Some(asked)),
            figures: Arc::default(),
            signer: Signer::new(&settings.secret),
            cursors: CursorSeal::new(&settings.secret),
            logins: Arc::new(Logins::open(settings.login_limits)),
            since: Instant::now(),
            keys_gone: AtomicU64::new(0),
            reloaded: Notify::new(),
            configured: Mutex::new(settings.clone()),
            roster: watch::Sender::new(None),
            principals: Arc::new(ArcSwap::from_pointee(Principals::new(settings, None))),
        }
    }

    /// Replaces users, services, bounds and rules. What a caller has used up of bounds that stay stays so. The key that
    /// signs tokens and the threads that check passwords stay.
    ///
    /// Services and users of the roster stay beside those of `settings`. One whose name stands there is not in force
    /// any more.
    pub fn reload(&self, settings: AuthSettings) {
        let mut configured = self.configured.lock().expect("no thread panics while it replaces them");
        let roster = self.roster.borrow().clone();
        tell_of_hidden(&configured, &settings, roster.as_deref());
        self.replace(together(&settings, roster.as_deref()));
        *configured = settings;
        self.reloaded.notify_one();
    }

    /// These services and users, too, may come in from now on, as far as the configuration allows what they were given.
    /// What a caller has used up stays so. Takes as long as a reload: never call it on a thread that serves.
    pub fn put_in_force(&self, roster: Arc<Roster>) {
        let configured = self.configured.lock().expect("no thread panics while it replaces them");
        self.replace(together(&configured, Some(&roster)));
        self.roster.send_replace(Some(roster));
    }

    /// The roster that is in force, with what the configuration says of it.
    pub fn in_force(&self) -> InForce {
        let configured = self.configured.lock().expect("no thread panics while it replaces them");
        InForce::new(&configured, self.roster.borrow().clone())
    }

    /// Waits until the roster with the record of this sequence is in force.
    pub async fn is_in_force(&self, sequence: u64) {
        let has_it = |roster: &Option<Arc<Roster>>| roster.as_ref().is_some_and(|roster| roster.sequence() >= sequence);
        // An error would say that this authenticator is gone.
        let _ = self.roster.subscribe().wait_for(has_it).await;
    }

    fn replace(&self, settings: AuthSettings) {
        let before = self.principals.load_full();
        self.principals.store(Arc::new(Principals::new(settings, Some(&before))));
    }

    /// Waits for a reload, if there was none since the last wait. For one waiter.
    pub async fn reloaded(&self) {
        self.reloaded.notified().await;
    }

    /// The identity providers, for whoever fetches their keys.
    pub fn provider_keys(&self) -> Vec<ProviderKeys> {
        self.principals.load().provider_keys()
    }

    /// The provider has these keys from now on, and no others: what others have signed is no good any more.
    pub fn replace_keys(&self, provider: &ProviderKeys, keys: Jwks) {
        // The keys go first: what is verified after the number has changed is verified by those of now.
        if provider.replace(keys) {
            self.keys_gone.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What the hook is to be asked, for the one who asks it; `None` if somebody has taken that before.
    pub fn hook_questions(&self) -> Option<mpsc::Receiver<HookQuestion>> {
        self.asked.lock().expect("no thread panics while it takes it").take()
    }

    /// The hook that decides on log-ins now, if there is one.
    pub fn hook_settings(&self) -> Option<Arc<HookSettings>> {
        self.principals.load().hook().map(|hook| hook.settings().clone())
    }

    /// What is counted of log-ins that the hook decides on.
    pub fn hook_figures(&self) -> &Arc<HookFigures> {
        &self.figures
    }

    /// The number of reloads, and of times that a key of a provider went. A cached identity is valid only as long as
    /// this number stays the same.
    pub fn generation(&self) -> u64 {
        self.principals.load().generation + self.keys_gone.load(Ordering::Acquire)
    }

    /// Who `bearer` is, now.
    pub fn authenticate(&self, bearer: &str) -> Result<Identity, AuthError> {
        self.authenticate_at(bearer, None, now_s()).map(|session| session.identity)
    }

    /// What `bearer` may do, now, and when a connection ends that is opened with it. It was shown from `address`, from
    /// where too many may have come that were no good; `None` if that was looked at before.
    pub fn rights_of(
        &self,
        bearer: &str,
        address: Option<IpAddr>,
    ) -> Result<(Arc<ClientRights>, Option<TimeMs>), AuthError> {
        let principals = self.principals.load();
        let (known, expires_at_s) = principals.bearer(&self.signer, bearer, address, now_s())?;
        Ok((known.rights.clone(), principals.connection_ends(expires_at_s)))
    }

    /// The key that requests name by `access_key`, now; `None` if there is none, or its service may not come in.
    pub fn signing_key(&self, access_key: &str) -> Option<SigningKey> {
        self.principals.load().signing_key(access_key)
    }

    /// The rights that their owner has by the current configuration; `None` if it has taken them away.
    pub fn renewed(&self, rights: &ClientRights) -> Option<Arc<ClientRights>> {
        self.principals.load().renewed(rights.holder())
    }

    /// Who `bearer` is at `now_s` (seconds since the epoch), and until when; `address` as in
    /// [`Authenticator::rights_of`].
    pub fn authenticate_at(&self, bearer: &str, address: Option<IpAddr>, now_s: u64) -> Result<Session, AuthError> {
        let principals = self.principals.load();
        let (known, expires_at_s) = principals.bearer(&self.signer, bearer, address, now_s)?;
        Ok(known.session(expires_at_s))
    }

    /// Checks a password, on one of few threads or by the hook, and gives a token. `Busy` when too many wait already,
    /// `Later` when too many wrong passwords came from `address`; a wrong password and an unknown user take the same
    /// time and give the same answer, where there is no hook. If the caller gives up, nothing is hashed for it. If a
    /// reload changes the hook while it is asked, the new one is asked, too; after another one the answer is `Changed`.
    pub async fn log_in(&self, user: &str, password: &str, address: IpAddr) -> Result<IssuedToken, LoginError> {
        match self.log_in_by_these(user, password, address).await {
            Err(LoginError::Changed) => self.log_in_by_these(user, password, address).await,
            decided => decided,
        }
    }

    /// The same, by the settings of now.
    async fn log_in_by_these(&self, user: &str, password: &str, address: IpAddr) -> Result<IssuedToken, LoginError> {
        let principals = self.principals.load_full();
        let gone = GoneOnDrop::default();
        if let Some(hook) = principals.hook_for(user) {
            let (told, result) = oneshot::channel();
            let asking = Asking { user, password, client_id: "", address, door: "http" };
            let answer = move |hooked| _ = told.send(hooked);
            let hooked = match self.ask_hook(hook, asking, gone.0.clone(), answer)? {
                Some(hooked) => hooked,
                None => result.await.map_err(|_| LoginError::Busy)??,
            };
            return Ok(self.issue_hooked(hook, &hooked, principals.token_ttl, now_s()));
        }
        let (told, result) = oneshot::channel();
        // Who gave up needs no answer.
        let answer = move |is_right| _ = told.send(is_right);
        let is_right = match self.check_password(&principals, user, password, address, gone.0.clone(), answer)? {
            Begun::Right => true,
            Begun::Asked => result.await.map_err(|_| LoginError::Busy)?,
        };
        match principals.user(user) {
            Some(known) if is_right => Ok(self.issue(known, principals.token_ttl, now_s())),
            _ => Err(LoginError::Wrong),
        }
    }

    /// Hashes a new password, on one of the few threads that check them. `Busy` when too many wait.
    pub async fn hash_password(&self, password: String) -> Result<PasswordHash, LoginError> {
        self.logins.hash(password).await
    }

    /// Begins to ask the hook about a log-in; `answer` gets what it decides, on another thread, if that is not known at
    /// once.
    pub(super) fn ask_hook(
        &self,
        hook: &Arc<Hook>,
        asking: Asking<'_>,
        is_gone: Arc<AtomicBool>,
        answer: impl FnOnce(Result<Hooked, LoginError>) + Send + 'static,
    ) -> Result<Option<Hooked>, LoginError> {
        let (since, current, asked) = (self.since, self.principals.clone(), hook.clone());
        let ask = Ask {
            logins: &self.logins,
            now_ms: move || since.elapsed().as_millis() as u64,
            questions: &self.questions,
            figures: &self.figures,
            is_gone,
        };
        let answer = move |hooked| {
            // A reload may have changed what the hook gives, or whom it is asked about.
            let principals = current.load();
            let is_same = principals.hook().is_some_and(|now| now.gives_as(&asked));
            answer(if is_same { hooked } else { Err(LoginError::Changed) });
        };
        hook.begin(asking, ask, answer)
    }

    /// Begins to check a password; `answer` gets the result on another thread, if it is not there at once.
    pub(super) fn check_password(
        &self,
        principals: &Principals,
        user: &str,
        password: &str,
        address: IpAddr,
        is_gone: Arc<AtomicBool>,
        answer: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Begun, LoginError> {
        let known = principals.user(user);
        let hash = known.map_or(&principals.decoy, |user| &user.password_hash);
        let stamp = known.map(|user| &*user.stamp);
        let since = self.since;
        let now_ms = move || since.elapsed().as_millis() as u64;
        let logins = self.logins.clone();
        self.logins.begin(&Attempt { user, password, stamp, address }, hash, now_ms(), |lane| Waiter {
            is_gone,
            answer: Box::new(move |is_right| {
                logins.settle(&lane, is_right, now_ms());
                answer(is_right);
            }),
        })
    }

    /// One more request of somebody at `address` who has not shown a good token. Every door asks this where such a
    /// request costs anything.
    pub fn arrive(&self, address: IpAddr) -> Result<(), Exceeded> {
        self.principals.load().strangers.arrive(address)
    }

    /// An answer to somebody at `address` was worth so many requests more than the one that was counted.
    pub fn charge(&self, address: IpAddr, requests: u32) {
        self.principals.load().strangers.charge(address, requests);
    }

    /// Room for so many bytes of a log-in that are to be read of `address`; `None` when too many are being read of it.
    pub fn hold(&self, address: IpAddr, bytes: usize) -> Option<HeldBytes> {
        self.principals.load().strangers.hold(address, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// What hides where a list goes on.
    pub fn cursors(&self) -> &CursorSeal {
        &self.cursors
    }

    /// Everybody of now.
    pub(super) fn principals(&self) -> &Arc<ArcSwap<Principals>> {
        &self.principals
    }

    /// Who signs tokens.
    pub(super) fn signer(&self) -> &Signer {
        &self.signer
    }

    fn issue(&self, user: &User, token_ttl: Duration, now_s: u64) -> IssuedToken {
        let expires_at_s = now_s.saturating_add(token_ttl.as_secs());
        let sub = user.known.identity.name().to_owned();
        let token =
            self.signer.sign(&Claims { sub, iat: now_s, exp: expires_at_s, pwd: user.stamp.clone(), hook: None });
        IssuedToken { token, expires_at_s }
    }

    fn issue_hooked(&self, hook: &Hook, hooked: &Hooked, token_ttl: Duration, now_s: u64) -> IssuedToken {
        let expires_at_s = now_s.saturating_add(token_ttl.as_secs()).min(hooked.expires_at_s);
        let (sub, pwd) = (hooked.known.identity.name().to_owned(), hook.stamp().to_owned());
        let hook = Some(Granted::clone(&hooked.granted));
        let token = self.signer.sign(&Claims { sub, iat: now_s, exp: expires_at_s, pwd, hook });
        IssuedToken { token, expires_at_s }
    }
}

/// Tells the threads that check passwords that nobody waits any more.
#[derive(Default)]
struct GoneOnDrop(Arc<AtomicBool>);

impl Drop for GoneOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The SHA-256 of a service's token, by which it is looked up.
pub fn service_token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Seconds since the epoch, some milliseconds late at most: this clock costs a fifth of the exact one, and is asked
/// several times in each request.
pub fn now_s() -> u64 {
    clock_gettime(COARSE).tv_sec.unsigned_abs()
}

#[cfg(target_os = "linux")]
const COARSE: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const COARSE: ClockId = ClockId::Realtime;
