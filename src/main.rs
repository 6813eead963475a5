//! The apifront program: reads flags, handles signals and runs an [`Apifront`].

mod demo;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use apifront::config::{Config, Flags, LiveConfig, Mode, ReloadMetrics, Source, VERSION, Watcher};
use apifront::doctor;
use apifront::kubectl_query;
use apifront::logging::LogControl;
use apifront::metrics::Metrics;
use apifront::server::Apifront;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use self::demo::DEMO;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reverse proxy, watch cache and API aggregation layer in front of Kubernetes
/// API servers.
///
/// With --config it stands in front of a cluster for its users. With
/// --kubeconfig alone it serves you, like `kubectl proxy`, on
/// http://127.0.0.1:8001. With neither, a build with the feature `demo` serves
/// sample objects there, and any other build says what it needs. A flag overrides
/// its field in the configuration file.
#[derive(Parser)]
#[command(name = "apifront", version = VERSION, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct CommandLine {
    /// Check the configuration and the files it names, say what is wrong, and exit
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Examine everything that a start with these flags needs, say how to mend what is
    /// wrong, and change nothing; the exit status is 1 if something is wrong
    Doctor(Box<Doctor>),
    KubectlQuery(Box<kubectl_query::Arguments>),
}

#[derive(Args)]
struct Doctor {
    /// The form of the report
    #[arg(short, long, value_enum, default_value_t)]
    output: doctor::Output,
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    use_small_pages();
    if let Some(arguments) = kubectl_query::called_by_name() {
        return query(arguments);
    }
    let CommandLine {
        validate_only,
        flags,
        command,
    } = CommandLine::parse();
    match command {
        Some(Command::Doctor(doctor)) => {
            return in_runtime(examine(*doctor)).unwrap_or_else(failed);
        }
        Some(Command::KubectlQuery(arguments)) => return query(*arguments),
        None => {}
    }
    let source = Source::new(flags, DEMO);
    let config = match source.load() {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(2);
        }
    };
    let done = if validate_only {
        in_runtime(validate(config))
    } else {
        apifront::logging::init(config.logging)
            .map_err(anyhow::Error::from)
            .and_then(|log| in_runtime(run(source, config, log)))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error),
    }
}

fn failed(error: anyhow::Error) -> ExitCode {
    eprintln!("apifront: {error:#}");
    ExitCode::FAILURE
}

async fn examine(doctor: Doctor) -> anyhow::Result<ExitCode> {
    let report = doctor::Report::new(doctor.output, std::io::stdout());
    let healthy = doctor::examine(&Source::new(doctor.flags, DEMO), report).await?;
    Ok(match healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs the kubectl plugin.
fn query(arguments: kubectl_query::Arguments) -> ExitCode {
    in_runtime(async { Ok(kubectl_query::run(arguments).await) }).unwrap_or_else(failed)
}

/// Asks the kernel for no huge pages, which the allocator wants by default. The
/// cache drops values here and there, and a huge page stays whole for the rest of
/// them: memory would be a quarter larger. Lists became no slower.
fn use_small_pages() {
    // A kernel that does not know the request has no huge pages.
    #[cfg(target_os = "linux")]
    let _known = rustix::thread::disable_transparent_huge_pages(true);
}

fn in_runtime<T>(program: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // pingora and kube must use the same provider. An error means that one is
    // already installed.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(program)
}

async fn validate(config: Config) -> anyhow::Result<()> {
    apifront::server::check(&config, &Metrics::new().context("metrics")?).await?;
    println!("the configuration is valid");
    Ok(())
}

async fn run(source: Source, config: Config, log: LogControl) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
    let metrics = Arc::new(Metrics::new().context("metrics")?);
    let reloads = ReloadMetrics::register(&metrics.registry).context("metrics")?;
    let mode = config.mode();
    let live = LiveConfig::new(config, reloads);
    let watcher = Watcher::new(source.files(&live.load())).context("cannot catch SIGHUP")?;
    let demo = demo::start(&live.load()).await;
    let demo = demo.context("cannot start the API server of the demo")?;
    let demo_address = demo.as_ref().map(|demo| demo.address());
    let server = Apifront::start(live.clone(), metrics, demo_address).await?;
    let verbosity = tokio::spawn(follow_verbosity(live.clone(), log));
    let reload = tokio::spawn(watcher.run(source, live));
    greet(mode, &server);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    reload.abort();
    verbosity.abort();
    server.stop().await;
    if let Some(demo) = demo {
        demo.stop().await;
    }
    Ok(())
}

/// Applies the verbosity of each new configuration to the log.
async fn follow_verbosity(live: Arc<LiveConfig>, log: LogControl) {
    let mut generation = live.subscribe();
    while generation.changed().await.is_ok() {
        log.set_verbosity(live.load().logging.verbosity);
    }
}

/// Tells a person at a terminal the addresses and what to do next.
fn greet(mode: Mode, server: &Apifront) {
    if let Some(address) = server.secure_address {
        eprintln!("serving https://{address}");
    }
    if let Some(address) = server.observability_address {
        eprintln!("serving http://{address}/status, /metrics and /readyz, without authentication");
    }
    let Some(address) = server.insecure_address else {
        return;
    };
    eprintln!("serving http://{address}");
    match mode {
        Mode::Front => {}
        Mode::Personal => {
            eprintln!("  requests to it act as your kubeconfig's user, like kubectl proxy");
            eprintln!("  kubectl --server http://{address} get pods -A");
        }
        Mode::Demo => {
            eprintln!("Behind apifront is an API server in memory, with sample objects. Try:");
            eprintln!(
                "  kubectl --server http://{address} get pods -A     a list out of the cache"
            );
            eprintln!("  kubectl --server http://{address} get pods -w     changes as they happen");
            eprintln!(
                "  curl -s http://{address}/metrics | grep apifront_cache_requests    who answered"
            );
            eprintln!("  http://{address}/status    what it does, for a browser");
        }
    }
}
