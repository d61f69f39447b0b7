// What the kernels for matrix units share, in both types of 16-bit floats.
#pragma once
#include "common.cuh"

DI uint32_t shared_at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
// copy16 starts a copy of 16 bytes to shared memory, of zeros where there is nothing to read.
DI void copy16(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
DI void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DI void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DI void matrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DI void matrices_turned(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
template <class T> DI void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> DI void mma<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> DI void mma<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Pairs of 16-bit floats.
template <class T> DI uint32_t pack2(float x, float y);
template <> DI uint32_t pack2<__half>(float x, float y) {
  __half2 h = __floats2half2_rn(x, y);
  return *(uint32_t*)&h;
}
template <> DI uint32_t pack2<__nv_bfloat16>(float x, float y) {
  __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
  return *(uint32_t*)&h;
}
template <class T> DI float2 unpack2(uint32_t v);
template <> DI float2 unpack2<__half>(uint32_t v) { return __half22float2(*(__half2*)&v); }
template <> DI float2 unpack2<__nv_bfloat16>(uint32_t v) { return __bfloat1622float2(*(__nv_bfloat162*)&v); }
template <class T> DI float2 load2(const void* p, i64 i) { return unpack2<T>(*(const uint32_t*)((const T*)p + i)); }

// ANY is an activation that the parameters name; the others are known to the compiler, which is what makes them quick.
const int ANY = -1;

// quick is activate to more digits than 16-bit floats have. erf is Abramowitz and Stegun's 7.1.26.
DI float quick(int act, float x) {
  if (act == ACT_GELU) {
    float z = fabsf(x) * 0.70710678f, t = __frcp_rn(fmaf(0.3275911f, z, 1.f));
    float e = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f) * t * exp2f(-1.44269504f * z * z);
    return 0.5f * x * (1.f + copysignf(1.f - e, x));
  }
  if (act == ACT_RELU) return relu(x);
  float z = act == ACT_TANH ? x : 0.79788456f * fmaf(0.044715f * x * x, x, x);
  float t = 1.f - 2.f / (1.f + exp2f(2.88539008f * z));
  return act == ACT_TANH ? t : 0.5f * x * (1.f + t);
}

// y[m,n] = act(alpha·a·b + bias) + residual, a [m,k] with rows arow apart, b [k,n]; k and n are multiples of 8, rows are
// aligned to 16 bytes. Sums are float32.
struct HalfProduct {
  void *a, *b, *bias, *residual, *y; // bias and residual may be null
  i64 arow;
  int m, n, k, act;
  float alpha;
  int pad;
};
