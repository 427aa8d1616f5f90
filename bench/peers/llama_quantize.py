#!/usr/bin/env python3
"""Writes a GGUF file in a form of few bits by the library of node-llama-cpp's package, and the bits of a weight beside it.

    llama_quantize.py PACKAGE MODEL.f32.gguf OUT.gguf q4_K_M     PACKAGE: the folder that has node_modules; also OUT.gguf.bits

The bits are those that llama.cpp says: of all tensors of the file.
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

KINDS = {"q4_K_S": 14, "q4_K_M": 15, "q5_K_M": 17, "q6_K": 18}  # llama.h: enum llama_ftype


class Options(ctypes.Structure):
    """llama_model_quantize_params, of which only the first two fields are changed: threads, and the form."""

    _fields_ = [("fields", ctypes.c_int32 * 64)]


def quantize(libraries, source, target, kind):
    find = lambda pattern: str(next(iter(sorted(libraries.glob(pattern)))))
    ctypes.CDLL(find("libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(find("libggml.*so"), mode=ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(find("libllama.*so"))
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load_all_from_path(str(libraries).encode())
    llama.llama_model_quantize_default_params.restype = Options
    options = llama.llama_model_quantize_default_params()
    options.fields[0], options.fields[1] = 2, KINDS[kind]
    return llama.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(options))


def main():
    package, source, target, kind = sys.argv[1:5]
    libraries = Path(package).resolve() / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    if "REEF_QUANTIZES" in os.environ:
        return quantize(libraries, source, target, kind)
    # The libraries find each other by a path that has to be there when a process begins.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "REEF_QUANTIZES": "1"}
    done = subprocess.run([sys.executable, *sys.argv], env=environment, capture_output=True, text=True, check=True)
    bits = re.search(r"quant size .*\((\S+) BPW\)", done.stdout + done.stderr)
    Path(target + ".bits").write_text(bits[1])
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[4] not in KINDS:
        sys.exit(__doc__)
    sys.exit(main())
