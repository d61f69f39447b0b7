// What all kernels share: element types, and the parts of a launch that Go fills in. Every kernel has one parameter, a struct.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#define DI __device__ __forceinline__
#define KERNEL extern "C" __global__
#include "ptx.cuh"

typedef long long i64;

// Element types, as kinds.go numbers them.
enum Kind { F32, F16, BF16, F64, I64, I32, I16, I8, U8, U16, U32, BOOL };

const int MAX_RANK = 8;

// An operand of kernels that go element by element: its first element, and its strides along the merged axes.
struct Operand {
  void* at;
  int kind, pad;
  i64 stride[MAX_RANK];
};

template <class T> DI float to_float(T x) { return x; }
template <> DI float to_float(__half x) { return __half2float(x); }
template <> DI float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T> DI T from_float(float x) { return x; }
template <> DI __half from_float<__half>(float x) { return __float2half_rn(x); }
template <> DI __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

// Four elements at a time; the address is aligned to them.
template <class T> DI void load4(float (&v)[4], const T* p) {
  if constexpr (sizeof(T) == 4) {
    float4 q = *(const float4*)p;
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
  } else {
    uint2 q = *(const uint2*)p;
    const T* h = (const T*)&q;
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = to_float(h[i]);
  }
}
template <class T> DI void store4(T* p, const float (&v)[4]) {
  if constexpr (sizeof(T) == 4) {
    *(float4*)p = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    uint2 q;
    T* h = (T*)&q;
#pragma unroll
    for (int i = 0; i < 4; i++) h[i] = from_float<T>(v[i]);
    *(uint2*)p = q;
  }
}

DI float gelu(float x) { return x < -20.f ? 0.f : 0.5f * x * erfcf(-0.70710678f * x); } // of −∞, too
DI float gelu_tanh(float x) { return x < -20.f ? 0.f : 0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); }
DI float relu(float x) { return x < 0.f ? 0.f : x; } // passes a NaN on

// Activations, in the order of ir.Activation.
enum Act { ACT_NONE, ACT_RELU, ACT_GELU, ACT_GELU_TANH, ACT_TANH };
DI float activate(int act, float x) {
  switch (act) {
  case ACT_RELU: return relu(x);
  case ACT_GELU: return gelu(x);
  case ACT_GELU_TANH: return gelu_tanh(x);
  case ACT_TANH: return tanhf(x);
  }
  return x;
}

// Where kernels leave an index that is outside of an axis: a flag, then the index.
struct Status {
  int flag, pad;
  i64 index;
};
DI i64 index_at(const void* p, int kind, i64 i) { return kind == I64 ? ((const i64*)p)[i] : ((const int*)p)[i]; }
// in_range makes an index count from the start, and reports one that is outside.
DI bool in_range(i64& i, i64 size, Status* status) {
  i64 seen = i;
  if (i < 0) i += size;
  if (i >= 0 && i < size) return true;
  if (atomicExch(&status->flag, 1) == 0) status->index = seen;
  return false;
}

// Sums and maxima over a warp, in an order that never changes.
DI float warp_sum(float x) {
#pragma unroll
  for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
  return x;
}
DI float warp_max(float x) {
#pragma unroll
  for (int i = 16; i; i >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
  return x;
}
