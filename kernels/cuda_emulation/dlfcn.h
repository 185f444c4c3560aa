// The part of dlfcn.h that kernels/cuda uses, for a machine that has emulated libraries and no others (libraries.cpp).
#pragma once

inline constexpr int RTLD_NOW = 2, RTLD_LOCAL = 0;

void* dlopen(const char* path, int flags);
void* dlsym(void* library, const char* name);
