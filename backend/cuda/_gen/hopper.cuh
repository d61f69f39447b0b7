// The matrix units of Hopper: what is beside the instructions themselves, which the generator writes.
#pragma once
#include "half.cuh"
// A matrix in shared memory for wgmma, with a swizzle of 128 bytes, or of 64 for swizzle 2.
DI uint64_t descriptor(uint32_t at, int leading, int stride, int swizzle = 1) {
  return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)swizzle << 62;
}
#ifdef EMULATED
#include "emulated/wgmma.h"
#else
#include "wgmma.cuh" // wgmma<T, N>(sums, a, b) and others
DI void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DI void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DI void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// wgmma_written makes what a thread wrote to shared memory visible to the copy engine and the matrix units.
DI void wgmma_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
