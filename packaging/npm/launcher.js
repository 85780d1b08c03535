#!/usr/bin/env node
// Starts the program of this platform with the same arguments, streams and environment; passes signals on to it, and ends
// as it ends.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { isatty } = require("node:tty");

const { name, optionalDependencies } = require("../package.json");

/** The path of the program, which is in a package of its own for each platform. */
function program() {
  const platform = `${name}-${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "mcp-proxy.exe" : "mcp-proxy";
  try {
    return require.resolve(`${platform}/bin/${file}`);
  } catch {
    const known = Object.keys(optionalDependencies);
    throw new Error(
      known.includes(platform)
        ? `the package ${platform} is not installed. It is an optional dependency of ${name}: install that again without ` +
            "--omit=optional or --no-optional, on the machine on which it runs"
        : `there is no program for ${process.platform} on ${process.arch}, only the packages ${known.join(", ")}. ` +
            "`cargo install mcp-proto-proxy` builds it, which needs Rust (https://rustup.rs) and a C compiler",
    );
  }
}

/** Ends this process with a message. */
function fail(message) {
  console.error(`mcp-proxy: ${message}`);
  process.exitCode = 1;
}

function start(path) {
  const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
  // A terminal sends SIGINT to the program too, and a second one would end it at once instead of in order.
  // `process.stdin` is not touched: that would make the pipe, which the program reads too, non-blocking.
  const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !hasTerminal) {
        child.kill(signal);
      }
    });
  }
  child.on("error", (error) => fail(`${path} cannot be started: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exitCode = code;
      return;
    }
    // The parent sees the same signal. Signals that are ignored leave the status that shells use.
    process.removeAllListeners(signal);
    process.exitCode = 128 + constants.signals[signal];
    process.kill(process.pid, signal);
  });
}

try {
  start(program());
} catch (error) {
  fail(error.message);
}
