# Builds for other processors, and qemu's user emulation of them. Sourced by scripts that have set -euo pipefail; needs cargo-zigbuild and
# zig, as scripts/dist does, and qemu-user.

declare -A triple=(
  [x86_64]=x86_64-unknown-linux-musl [aarch64]=aarch64-unknown-linux-musl [armv7]=armv7-unknown-linux-musleabihf
)
declare -A emulator=([x86_64]=qemu-x86_64 [aarch64]=qemu-aarch64 [armv7]=qemu-arm)

missing() {
  echo "$(basename "$0"): this needs $1" >&2
  exit 1
}

# Sets what cargo-zigbuild needs to build for an architecture: host, its triple, and options.
prepare() {
  local architecture=$1
  unset RUSTC_BOOTSTRAP RUSTFLAGS
  command -v cargo-zigbuild >/dev/null || missing "cargo-zigbuild (pip install cargo-zigbuild ziglang)"
  host=${triple[$architecture]:-}
  [[ -n $host ]] || { echo "$(basename "$0"): no architecture is called $architecture: choose of ${!triple[*]}" >&2; exit 2; }
  command -v "${emulator[$architecture]}" >/dev/null || missing "${emulator[$architecture]} (Debian: qemu-user)"
  options=(--locked --release --target "$host")
  if ! rustup target add "$host" >&2; then
    rustup component add rust-src >&2 || missing "Rust's standard library for $host (rustup target add $host, or its sources: rust-src)"
    # The stable compiler takes -Z where this is set. Objects that begin and end a program are zig's.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-C link-self-contained=no"
    options+=(-Z "build-std=std,panic_unwind,test")
  fi
  export CARGO_TARGET_DIR=target/emulated
}
