"""Runs the program of an image: image.py docker|buildah IMAGE [OPTION OF BUILDAH...]"""

import json
import subprocess
from pathlib import Path

from peers import HttpServer, Tools
from program import BARE, Program, expect, main

FILES = {"mcp-proxy", "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def check_program(proxy: Program) -> None:
    proxy.check_version()
    proxy.check_exit_codes()
    with HttpServer(Tools) as server:
        proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")


def check(builder: str, image: str, *options: str) -> None:
    if builder == "docker":
        check_program(Program("docker", "run", "--interactive", "--rm", "--network=host", image))
        print(f"{image}: run by docker")
        return
    # Without a daemon, the files of the image are run as the user that the image names.
    about = json.loads(output("buildah", *options, "inspect", "--type", "image", image))
    config = about["OCIv1"]["config"]
    container = output("buildah", *options, "from", "--pull-never", image)
    try:
        root = output("buildah", *options, "mount", container)
        files = {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}
        expect(files == FILES, f"the image contains {sorted(files)}")
        check_program(Program("chroot", f"--userspec={config['User']}", root, *config["Entrypoint"], env=BARE))
        expect(config["User"] == "65534:65534", f"the user is {config['User']}")
        print(f"{image}: built by buildah, its files run in a root of their own as {config['User']}")
    finally:
        output("buildah", *options, "rm", container)


if __name__ == "__main__":
    raise SystemExit(main(check))
