"""Builds the extension and puts libsumcast beside it, so that the package stands alone.

SUMCAST_LIBRARY_DIR names the folder of a libsumcast.so.0 that was built already; without it,
CMake's preset `release` builds one in the repository that this file lies in.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARY = "libsumcast.so.0"


def library_folder():
    given = os.environ.get("SUMCAST_LIBRARY_DIR")
    if given:
        return pathlib.Path(given)
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "-j", jobs, "--target", "libsumcast"],
        cwd=ROOT,
        check=True,
    )
    return ROOT / "build" / "release" / "src"


class BuildWithLibrary(BuildExtension):
    def build_extensions(self):
        library = library_folder() / LIBRARY
        if not library.exists():
            raise SystemExit(f"setup.py: there is no {library}; build the CMake target libsumcast")
        for extension in self.extensions:
            extension.extra_link_args += [str(library), "-Wl,-rpath,$ORIGIN"]
        super().build_extensions()
        package = pathlib.Path(self.get_ext_fullpath(self.extensions[0].name)).parent
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy(library.resolve(), package / LIBRARY)


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(sumcast VERSION ([0-9.]+)", text).group(1)


setup(
    version=version(),
    packages=find_packages(include=["sumcast", "sumcast.*"]),
    ext_modules=[
        CppExtension(
            "sumcast._native",
            sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.cc")),
            include_dirs=[str(ROOT / "include")],
            extra_compile_args=["-O2", "-g1", "-fvisibility=hidden", "-Wall"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary},
    zip_safe=False,
)
