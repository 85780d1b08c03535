//! The simulations with plans from fixed seeds, and with machines that are broken on purpose.

mod aggregate;
mod gateway;
mod instances;
mod network;
mod sign_in;
