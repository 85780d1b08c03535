"""Checks the workflows without running them, most of all that of a release: workflows.py FOLDER

Needs `ruby`, which reads YAML.
"""

import json
import re
import subprocess
from pathlib import Path

from program import expect, main
from project import PLATFORMS

TESTS = ".ci/platform"
# The jobs that publish at a registry which accepts the identity of a workflow.
TRUSTED = ["crates", "npm", "pypi"]
# Credentials that are stored, and addresses of registries: the tools have the right ones as their defaults.
FORBIDDEN = r"registry-url|repository-url|--registry|registry\.npmjs|pypi\.org|NODE_AUTH_TOKEN|NPM_TOKEN|secrets\.(?!GITHUB_TOKEN\b)"


def read(file: Path) -> dict:
    code = "puts YAML.load_file(ARGV[0]).to_json"
    done = subprocess.run(["ruby", "-ryaml", "-rjson", "-e", code, str(file)], capture_output=True, text=True)
    expect(done.returncode == 0, f"{file.name}: {done.stderr}")
    jobs = json.loads(done.stdout)["jobs"]
    for name, job in jobs.items():
        expect("runs-on" in job and "steps" in job, f"{file.name}: the job {name} lacks a runner or steps")
    return jobs


def commands(job: dict) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def check_platforms(jobs: dict) -> None:
    """Each platform has a machine of its own, which tests before it builds."""
    machines = {one["triple"]: one["runner"] for one in jobs["binary"]["strategy"]["matrix"]["include"]}
    expected = {platform.triple for platform in PLATFORMS}
    expect({*machines} == expected, f"besides, or missing: {expected ^ {*machines}}")
    expect(len({*machines.values()}) == len(machines), f"a machine is shared: {machines}")
    lines = commands(jobs["binary"])
    built = [number for number, line in enumerate(lines) if line.startswith("packaging/build")]
    expect(TESTS in lines and lines.index(TESTS) < min(built), f"the tests are not run before the build: {lines}")
    expect(any("packaging/run complete " in line for line in commands(jobs["packages"])), "a release may lack platforms")


def check_publishing(text: str, jobs: dict) -> None:
    found = re.findall(FORBIDDEN, text)
    expect(not found, f"the workflow of a release names {found}")
    for name in TRUSTED:
        job = jobs[name]
        expect(job["permissions"].get("id-token") == "write", f"the job {name} has no identity")
        expect(job["environment"] == "release" and "tag" in str(job["if"]), f"the job {name} publishes without an approval or a tag")
    (node,) = (step for step in jobs["npm"]["steps"] if step.get("uses", "").startswith("actions/setup-node@"))
    expect(node["with"] == {"node-version": 24}, f"the npm of Node.js before 24 needs a token: {node}")


def tested(workflows: dict) -> set[str]:
    """The machines on which workflows run the tests, except for that of a release."""
    jobs = (job for name, jobs in workflows.items() if name != "release" for job in jobs.values())
    return {runner for job in jobs if TESTS in commands(job) for runner in job["strategy"]["matrix"]["runner"]}


def check(folder: str) -> None:
    files = sorted(Path(folder).glob("*.yml"))
    workflows = {file.stem: read(file) for file in files}
    release = workflows["release"]
    check_platforms(release)
    check_publishing((Path(folder) / "release.yml").read_text(), release)
    machines = {one["runner"] for one in release["binary"]["strategy"]["matrix"]["include"]}
    # `.ci/run` contains these tests.
    lacking = machines - tested(workflows) - {"ubuntu-24.04"}
    expect(not lacking, f"no workflow tests on {lacking} before a release")
    print(f"{', '.join(file.name for file in files)}: the platforms, their tests, and who may publish")


if __name__ == "__main__":
    raise SystemExit(main(check))
