# SPDX-License-Identifier: BSD-3-Clause
"""Kernels to build the module against and to boot in a guest: the distribution's header packages where they are installed, their images and
a newer kernel's fetched once into the build folder and only unpacked."""

import os
import pathlib
import re
import shutil
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "kmodule"


class Unavailable(Exception):
    """Why something cannot be had here."""


def run(command, **options):
    return subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def installed_headers():
    """Header folders of installed packages, by kernel release."""
    return {folder.name.removeprefix("linux-headers-"): folder
            for folder in sorted(pathlib.Path("/usr/src").glob("linux-headers-*-amd64")) if (folder / "Makefile").exists()}


def unpack(package, into, environment=None):
    """The package's files below `into`, fetched if they are not there yet."""
    done = into / f".{package}"
    if done.exists():
        return
    into.mkdir(parents=True, exist_ok=True)
    fetched = run(["apt-get", "download", package], cwd=into, env=environment)
    files = list(into.glob(f"{package}_*.deb"))
    if fetched.returncode != 0 or not files:
        raise Unavailable(f"the package {package} cannot be fetched: {fetched.stdout.strip().splitlines()[-1:]}")
    unpacked = run(["dpkg", "-x", files[0], into])
    for file in files:
        file.unlink()
    if unpacked.returncode != 0:
        raise Unavailable(f"the package {package} cannot be unpacked: {unpacked.stdout.strip()}")
    done.touch()


def image(release, cache):
    """The bootable kernel of that release."""
    unpack(f"linux-image-{release}", cache / release)
    return cache / release / "boot" / f"vmlinuz-{release}"


def newer_headers(cache):
    """(release, folder) of a kernel of the distribution that is newer than the installed headers' one, unpacked into the cache. Nothing of
    it is installed: its header package would bring the kernel itself."""
    found = run(["apt-cache", "search", "--names-only", r"^linux-headers-6\.[0-9]{2}\..*-cloud-amd64$"]).stdout
    releases = sorted(re.findall(r"^linux-headers-(\S+)", found, re.M), key=lambda r: [int(n) for n in re.findall(r"\d+", r)])
    if not releases:
        raise Unavailable("the distribution has no second kernel's headers")
    release = releases[-1]
    root = cache / release
    depends = run(["apt-cache", "show", "--no-all-versions", f"linux-headers-{release}"]).stdout
    for package in [f"linux-headers-{release}", *re.findall(r"(linux-headers-[^ ,]*-common|linux-kbuild-[^ ,]*)", depends)]:
        unpack(package, root)
    return release, moved(root, release)


def moved(root, release):
    """The header folder below `root`, whose files name each other by absolute paths; made to be used there, by the compiler that is installed."""
    folder = root / "usr/src" / f"linux-headers-{release}"
    for file in (folder / "Makefile", folder / ".kernelvariables"):
        if file.exists() and not file.is_symlink():
            text = re.sub(r"(?<![\w/.])/usr/(src|lib)/", f"{root}/usr/\\1/", file.read_text())
            file.write_text(re.sub(r"(?m)^(CC = .*)gcc-(\d+)$", lambda line: line[0] if shutil.which(f"gcc-{line[2]}") else f"{line[1]}gcc", text))
    return folder


def older_headers(cache):
    """(release, folder) of the previous release's last kernel, unpacked into the cache. Its package lists are read apart from the system's."""
    apt = cache / "bullseye"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    keys = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    (apt / "sources.list").write_text(f"deb {keys} http://deb.debian.org/debian-security bullseye-security main\n")
    (apt / "apt.conf").write_text(f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "-";\n'
                                  f'Dir::State::lists "{apt}/lists";\nDir::Cache "{apt}/cache";\nAcquire::Languages "none";\n')
    environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    if not list(apt.glob("lists/*Packages*")):
        run(["apt-get", "update"], env=environment)
    found = run(["apt-cache", "search", "--names-only", r"^linux-headers-5\.10\..*-cloud-amd64$"], env=environment).stdout
    releases = sorted(re.findall(r"^linux-headers-(\S+)", found, re.M), key=lambda r: [int(n) for n in re.findall(r"\d+", r)])
    if not releases:
        raise Unavailable("the previous release's kernels are not on the mirror")
    release = releases[-1]
    root = cache / release
    for package in (f"linux-headers-{release}", f"linux-headers-{release.removesuffix('-cloud-amd64')}-common", "linux-kbuild-5.10",
                    f"linux-image-{release}"):
        unpack(package, root, environment)
    return release, moved(root, release)


def build(headers, work, options=()):
    """polter.ko against those headers, in a copy of the sources; what make said."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shutil.copy(SOURCES / "page.h", work)
    for part in ("accounting", "module"):
        shutil.copytree(SOURCES / part, work / part)
    made = run(["make", "-C", work / "module", f"KDIR={headers}", *options])
    if made.returncode != 0:
        raise AssertionError(f"polter.ko does not build against {headers}:\n{made.stdout}")
    return work / "module" / "polter.ko", made.stdout
