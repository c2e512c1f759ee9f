"""Builds the extension on Python's limited API: one wheel for CPython 3.9 and later.

`make python` at the top of the repository calls this after it has compiled Sherd's C library for use in other programs; the
environment variables SHERD_LIB (the library) and SHERD_LIBS (what it is linked with) come from there.
"""
import glob
import os
import re

from setuptools import Extension, setup

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
os.chdir(HERE)


def version():
    with open(os.path.join(ROOT, "src", "base", "version.h")) as header:
        return re.search(r'"(\d+\.\d+\.\d+)"', header.read()).group(1)


extension = Extension(
    "sherd._sherd",
    sources=sorted(glob.glob("ext/*.c")),
    depends=["ext/pysherd.h", os.environ["SHERD_LIB"]],
    include_dirs=[os.path.join(ROOT, "src"), os.path.join(ROOT, "include"), "ext"],
    define_macros=[("_GNU_SOURCE", None)],
    extra_objects=[os.environ["SHERD_LIB"]],
    extra_compile_args=os.environ.get("SHERD_CFLAGS", "").split() + ["-fvisibility=hidden"],
    # Only PyInit__sherd is visible: two copies of Sherd's library in one process must not mix.
    extra_link_args=["-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"] + os.environ["SHERD_LIBS"].split(),
    py_limited_api=True,
)

setup(version=version(), ext_modules=[extension], options={"bdist_wheel": {"py_limited_api": "cp39"}})
