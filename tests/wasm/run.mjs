// Runs a WebAssembly program that imports nothing, and compares its exit code: run.mjs FILE CODE
import { readFile } from "node:fs/promises";

const [file, expected] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(await readFile(file), {});
const code = instance.exports.main(0, 0);
if (code !== Number(expected)) {
  console.error(`${file} returned ${code} instead of ${expected}`);
  process.exit(1);
}
console.log(`${file} returned ${code}`);
