//! Tests of gateways in the process of the test; shell scripts are the servers behind them.

#![cfg(unix)]

mod ended_servers;
mod library;
mod reloading;
mod starting;
