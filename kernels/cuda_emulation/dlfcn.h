// The part of dlfcn.h that kernels/cuda uses, for a machine that has only the emulated libraries (libraries.cpp).
#pragma once

inline constexpr int RTLD_NOW = 2, RTLD_LOCAL = 0;

void* dlopen(const char* path, int flags);
void* dlsym(void* library, const char* name);
