//! Flags in the place of fields.

use std::time::Duration;

use clap::Parser;

use super::*;

#[test]
fn a_flag_overrides_the_file() {
    let text = minimal_with("serving", "  securePort: 7443\n  minRequestTimeout: 1h");
    let config = load_text(&text, &[]).unwrap();
    assert_eq!(config.serving.secure.unwrap().address.port(), 7443);
    assert_eq!(
        config.serving.min_request_timeout,
        Duration::from_secs(3600)
    );
    let flags = ["--secure-port=8443", "--min-request-timeout=60", "-v", "4"];
    let config = load_text(&text, &flags).unwrap();
    assert_eq!(config.serving.secure.unwrap().address.port(), 8443);
    assert_eq!(config.serving.min_request_timeout, Duration::from_secs(60));
    assert_eq!(config.logging.verbosity, 4);
}

#[test]
fn the_flag_takes_the_place_of_the_runtime_config() {
    let text = minimal_with("apis", "  runtimeConfig: {batch/v1: false}");
    let version = |text: &str| kubernetes_wire::api::GroupVersion::parse(text).unwrap();
    let config = load_text(&text, &[]).unwrap().apis.runtime_config;
    assert!(!config.is_enabled(&version("batch/v1")));
    let flag = "--runtime-config=apps/v1=false, policy/v1=false,,v1";
    let config = load_text(&text, &[flag]).unwrap().apis.runtime_config;
    let enabled =
        ["batch/v1", "apps/v1", "policy/v1", "v1"].map(|v| config.is_enabled(&version(v)));
    assert_eq!(enabled, [true, false, false, true]);
    assert_eq!(
        load_text(&text, &["--runtime-config", "api/beta=true,a/b/c/d=true"])
            .unwrap_err()
            .len(),
        1
    );
    assert!(Flags::try_parse_from(["apifront", "--runtime-config=v1=maybe"]).is_err());
}

#[test]
fn flags_are_consistent() {
    use clap::CommandFactory;
    Flags::command().debug_assert();
    let help = Flags::command().render_long_help().to_string();
    assert!(help.contains("--requestheader-extra-headers-prefix <PREFIXES>"));
}
