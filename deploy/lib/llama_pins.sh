# Which llama.cpp, how it is built, and the key its installation is cached under.
# shellcheck shell=bash disable=SC2034

llama_version=0.3.36   # of the PyPI source package llama-cpp-python, which carries llama.cpp under vendor/
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

# The library only. With RISKKV_PORTABLE=1 it is for any x86-64-v3 processor (AVX2, FMA, F16C, BMI2; 2013 and later),
# as an image or a package needs it; without, it is for this processor.
llama_flags() {
  printf '%s\n' -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DGGML_OPENMP=OFF
  if [ "${RISKKV_PORTABLE:-0}" != 1 ]; then
    printf '%s\n' -DGGML_NATIVE=ON
    # g++ 12 drops stores of AMX's tile configuration and the kernels then die with SIGILL: leave AMX out.
    if [ "$(uname -m)" = x86_64 ]; then
      printf '%s\n' "-DCMAKE_C_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" \
        "-DCMAKE_CXX_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    fi
  else
    printf '%s\n' -DGGML_NATIVE=OFF
    if [ "$(uname -m)" = x86_64 ]; then
      printf '%s\n' -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON
    fi
  fi
}

# A build for this processor must not be found by another one that shares the cache folder.
llama_key() {
  {
    echo "$llama_sha256"
    llama_flags
    uname -m
    if [ "${RISKKV_PORTABLE:-0}" != 1 ]; then
      grep -m 1 -E '^(flags|Features)' /proc/cpuinfo || true
    fi
  } | sha256sum | cut -c1-12
}
