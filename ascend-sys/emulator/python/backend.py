"""The build backend of the wheel (PEP 517), which needs Python's standard library and cargo.

Cargo builds the emulator and its installer, the installer makes a directory like that of a CANN
installation, and a wheel is a zip file of this directory beside the Python package.

The setting `build-args` (`pip install --config-settings=build-args=...`) replaces the arguments that
choose what cargo builds, for a build directory that is shared with other builds.
"""

import base64
import hashlib
import json
import os
import pathlib
import platform
import shlex
import subprocess
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
PACKAGE = "ascend_emulator"
INSTALLER = "ascend-emulator-install"
CARGO = os.environ.get("CARGO", "cargo")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds the wheel and returns the name of its file."""
    version = package_version()
    tag = f"py3-none-linux_{platform.machine()}"
    about = f"{PACKAGE}-{version}.dist-info"
    name = f"{PACKAGE}-{version}-{tag}.whl"
    with tempfile.TemporaryDirectory() as home:
        build_arguments = (config_settings or {}).get("build-args", "-p ascend-emulator-shared")
        install(home, shlex.split(build_arguments))
        files = python_files() + installed_files(pathlib.Path(home))
        files += [
            (f"{about}/METADATA", metadata(version).encode()),
            (f"{about}/WHEEL", wheel(tag).encode()),
        ]
        record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files)
        files.append((f"{about}/RECORD", f"{record}{about}/RECORD,,\n".encode()))
        path = pathlib.Path(wheel_directory, name)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path, data in files:
                archive.writestr(path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Fails: the sources of the libraries are in the repository, outside of this directory."""
    raise NotImplementedError("build a wheel from a checkout of the repository instead")


def cargo(*arguments):
    """Runs cargo and returns what it prints, a JSON value a line."""
    try:
        done = subprocess.run(
            [CARGO, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
        )
    except FileNotFoundError:
        text = f"`{CARGO}` is not there: install Rust, or set CARGO to its path"
        raise SystemExit(text) from None
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


def package_version():
    """The version of the Rust packages."""
    (described,) = cargo("metadata", "--no-deps", "--format-version=1")
    return next(it["version"] for it in described["packages"] if it["name"] == "ascend-emulator")


def install(home, build_arguments):
    """Builds the emulator and installs it into a directory."""
    messages = cargo(
        "build", "--release", "--message-format=json-render-diagnostics", *build_arguments
    )
    programs = [it.get("executable") or "" for it in messages]
    found = [it for it in programs if os.path.basename(it) == INSTALLER]
    if not found:
        raise SystemExit(f"cargo has built no {INSTALLER}: correct the setting build-args")
    subprocess.run([found[0], home], check=True)


def python_files():
    """The files of the Python package, each with its path in the wheel."""
    paths = sorted((HERE / PACKAGE).glob("*.py"))
    return [(f"{PACKAGE}/{it.name}", it.read_bytes()) for it in paths]


def installed_files(home):
    """The installed files, but for the script for shells: a wheel does not know its place."""
    paths = sorted(it for it in home.rglob("*") if it.is_file() and it.name != "set_env.sh")
    return [(f"{PACKAGE}/cann/{it.relative_to(home)}", it.read_bytes()) for it in paths]


def metadata(version):
    """The file that describes the package."""
    return (
        f"Metadata-Version: 2.1\nName: ascend-emulator\nVersion: {version}\n"
        "Summary: CANN's AscendCL and HCCL on virtual NPUs\nRequires-Python: >=3.8\n"
        "License: Apache-2.0 OR MIT\n"
    )


def wheel(tag):
    """The file that describes the wheel."""
    return f"Wheel-Version: 1.0\nGenerator: ascend-emulator\nRoot-Is-Purelib: false\nTag: {tag}\n"


def digest(data):
    """A hash as a wheel's list of files has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
