// Kernels on the processor: a block's threads are fibers, which take turns where they meet. This header comes before the text of a kernel, as
// g++ compiles it; what is no C++ is here or in ptx.h. A test calls emulate.
#pragma once
#define EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>

#undef __device__
#undef __forceinline__
#undef __global__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#undef __align__
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ thread_local // of all fibers, which are of one thread
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// Where threads meet. Those that have returned are not waited for.
struct Meeting {
  int of, here, round; // threads that there are, that have come, and how often all came
};
struct Copy {
  uint32_t to;
  const void* from;
  int bytes, group;
  bool there;
};
struct Fiber {
  jmp_buf at;
  ucontext_t begin;
  bool done;
  std::vector<Copy> copies;
  int group;
};
const int MOST = 1024, STACK = 256 << 10;
static Fiber fibers[MOST];
static Meeting block, warps[MOST / 32];
static int running, idle; // the fiber, and how many took their turn since something happened
static ucontext_t outside;
static dim3 block_index, grid_size, block_size;
struct Parameters {
  char bytes[4096]; // no kernel has more
};
static Parameters parameters;
static void (*entry)(Parameters);
static bool backwards; // the order in which threads take their turns
#define stages sm // as a kernel calls it
alignas(1024) thread_local char dynamic[256 << 10] __asm__("sm"); // what kernels call sm, of any type

struct ThreadIndex {
  int x;
};
#define threadIdx (ThreadIndex{running})
#define blockIdx block_index
#define gridDim grid_size
#define blockDim block_size

// turn lets the next thread run.
static void turn() {
  if (++idle > 4 * MOST) fprintf(stderr, "threads of a block wait for each other, and none comes\n"), abort();
  int n = block_size.x, next = running;
  do next = (next + (backwards ? n - 1 : 1)) % n;
  while (fibers[next].done);
  if (next == running) return;
  if (_setjmp(fibers[running].at) == 0) {
    running = next;
    _longjmp(fibers[next].at, 1);
  }
}
static void open(Meeting& m) { m.here = 0, m.round++, idle = 0; }
static void meet(Meeting& m) {
  int round = m.round;
  if (++m.here == m.of) open(m);
  while (m.round == round) turn();
}
static void leave(Meeting& m) {
  if (--m.of > 0 && m.here == m.of) open(m);
}
static Meeting& warp() { return warps[running / 32]; }
static void __syncthreads() { meet(block); }
static void __syncwarp() { meet(warp()); }

static void run_thread() {
  if (_setjmp(fibers[running].at) == 0) swapcontext(&fibers[running].begin, &outside);
  entry(parameters);
  fibers[running].done = true, idle = 0;
  leave(block), leave(warp());
  if (block.of == 0) setcontext(&outside);
  turn();
}

// emulate launches a kernel of this library.
extern "C" void emulate(void* kernel, const uint32_t* blocks, const void* p, uint64_t size, uint64_t threads, uint64_t order) {
  static char* stacks = (char*)malloc((size_t)MOST * STACK);
  entry = (void (*)(Parameters))kernel;
  memcpy(&parameters, p, size);
  backwards = order;
  grid_size = dim3(blocks[0], blocks[1], blocks[2]), block_size = dim3(threads, 1, 1);
  for (uint32_t i = 0; i < blocks[0] * blocks[1] * blocks[2]; i++) {
    block_index = dim3(i % blocks[0], i / blocks[0] % blocks[1], i / blocks[0] / blocks[1]);
    memset(dynamic, 0xff, sizeof(dynamic)); // NaN
    block = {(int)threads, 0, 0}, idle = 0;
    for (uint32_t w = 0; w * 32 < threads; w++) warps[w] = {(int)std::min<uint64_t>(32, threads - w * 32), 0, 0};
    for (running = 0; running < (int)threads; running++) {
      Fiber& f = fibers[running];
      f.done = false, f.group = 0, f.copies.clear();
      getcontext(&f.begin);
      f.begin.uc_stack.ss_sp = stacks + (size_t)running * STACK, f.begin.uc_stack.ss_size = STACK, f.begin.uc_link = nullptr;
      makecontext(&f.begin, run_thread, 0);
      swapcontext(&outside, &f.begin); // as far as its first turn
    }
    running = backwards ? threads - 1 : 0;
    if (getcontext(&outside) == 0 && block.of > 0) _longjmp(fibers[running].at, 1);
  }
}

// What CUDA has beside C++.
template <class T> static T among(T x, int lane) { // what another lane of the warp has
  static uint64_t slots[MOST];
  memcpy(&slots[running], &x, sizeof(T));
  meet(warp());
  memcpy(&x, &slots[running / 32 * 32 + lane], sizeof(T));
  meet(warp());
  return x;
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int d) { return among(x, running % 32 ^ d); }
template <class T> static T __shfl_sync(unsigned, T x, int lane) { return among(x, lane); }
template <class A, class B> static auto min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static auto max(A a, B b) { return a < b ? b : a; }
template <class T> static T atomicMin(T* p, T x) { T old = *p; *p = min(old, x); return old; }
template <class T> static T atomicMax(T* p, T x) { T old = *p; *p = max(old, x); return old; }
template <class T> static T atomicExch(T* p, T x) { T old = *p; *p = x; return old; }
template <class T> static T atomicAdd(T* p, T x) { T old = *p; *p = old + x; return old; }
template <class To, class From> static To bits_as(From x) { To y; memcpy(&y, &x, sizeof(y)); return y; }
static int __float_as_int(float x) { return bits_as<int>(x); }
static uint32_t __float_as_uint(float x) { return bits_as<uint32_t>(x); }
static float __int_as_float(int x) { return bits_as<float>(x); }
static float __uint_as_float(uint32_t x) { return bits_as<float>(x); }
static uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t s) {
  uint64_t bytes = (uint64_t)y << 32 | x;
  uint32_t z = 0;
  for (int i = 0; i < 4; i++) z |= (uint32_t)(bytes >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
  return z;
}
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static float __fmul_rn(float x, float y) { return x * y; }
static float __fadd_rn(float x, float y) { return x + y; }
static float rsqrtf(float x) { return 1.f / sqrtf(x); }
