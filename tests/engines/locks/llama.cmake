# How llama-server is built: the server alone, in one file, with nothing that needs the network or another library.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(BUILD_SHARED_LIBS OFF CACHE BOOL "")
set(GGML_NATIVE ON CACHE BOOL "")
set(LLAMA_CURL OFF CACHE BOOL "")
set(LLAMA_OPENSSL OFF CACHE BOOL "")
set(LLAMA_BUILD_TESTS OFF CACHE BOOL "")
set(LLAMA_BUILD_EXAMPLES OFF CACHE BOOL "")
set(LLAMA_BUILD_UI OFF CACHE BOOL "")
