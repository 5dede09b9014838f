//! What this program is: its version, the commit that it is built from, and its features.

macro_rules! with_commit {
    () => {
        concat!(env!("CARGO_PKG_VERSION"), " (", env!("BENTPIPE_COMMIT"), " ", env!("BENTPIPE_COMMIT_DATE"), ")")
    };
}

/// What of it metrics show.
pub const BUILD: gateway::Build = gateway::Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BENTPIPE_COMMIT"),
    features: if cfg!(feature = "ebpf") { "ebpf" } else { "" },
};

/// The day of the commit, as 2026-01-31; `unknown` outside a repository.
pub const COMMIT_DATE: &str = env!("BENTPIPE_COMMIT_DATE");

/// For `-V`, in one line.
pub const SHORT: &str = with_commit!();

/// For `--version`.
pub const LONG: &str = if cfg!(feature = "ebpf") {
    concat!(with_commit!(), "\nfeatures: ebpf")
} else {
    concat!(with_commit!(), "\nfeatures: none (built without ebpf: `bentpipe cc` loads nothing)")
};
