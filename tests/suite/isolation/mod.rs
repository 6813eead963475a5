//! No caller's slowness, flood or page becomes another's.

mod connections;
mod frames;
mod http2_floods;
mod personal_browser;
mod victim;
