// What the kernels for matrix units share: 16-bit floats, and float32 as tf32, whose mantissa has 10 bits.
#pragma once
#include "common.cuh"

// Pairs of floats.
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
template <class T> struct Pair { typedef uint32_t Raw; };
template <> struct Pair<float> { typedef float2 Raw; };
template <class T> DI typename Pair<T>::Raw ask2(const void* p, i64 i) { return *(const typename Pair<T>::Raw*)((const T*)p + i); }
template <class T> DI float2 get2(typename Pair<T>::Raw v) { return unpack2<T>(v); }
template <> DI float2 get2<float>(float2 v) { return v; }
template <class T> DI void store2(void* p, i64 i, float x, float y) { *(uint32_t*)((T*)p + i) = pack2<T>(x, y); }
template <> DI void store2<float>(void* p, i64 i, float x, float y) { *(float2*)((float*)p + i) = make_float2(x, y); }

// ANY is an activation that the parameters name; the others are known to the compiler, which is what makes them quick.
const int ANY = -1;

// quick is activate to more digits than 16-bit floats and tf32 have. GELU is max(x, 0) − |x|·Φ(−|x|): the logarithm of Φ is nearly a
// parabola, whose polynomial of degree 7 is off by 4e-7 of Φ's largest value up to 6.5 and decreases beyond.
DI float quick(int act, float x) {
  if (act == ACT_GELU) {
    const float c[] = {-0.999996126f, -1.15122318f, -0.458580673f, -0.0537902825f, 0.00839469675f, -0.000893028395f, 5.56139748e-05f, -1.47004232e-06f};
    float z = fminf(fabsf(x), 20.f), q = c[7];
#pragma unroll
    for (int i = 6; i >= 0; i--) q = fmaf(q, z, c[i]);
    return fmaf(-z, power2(q), above(x, 0.f)); // a NaN passes on, −∞ becomes 0
  }
  if (act == ACT_RELU) return relu(x);
  float z = act == ACT_TANH ? x : 0.79788456f * fmaf(0.044715f * x * x, x, x);
  float t = 1.f - 2.f * inverse(1.f + power2(2.88539008f * z));
  return act == ACT_TANH ? t : 0.5f * x * (1.f + t);
}

// y[m,n] = act(alpha·a·b + bias) + residual, a [m,k] with rows arow apart, b [k,n], or [n,k] of float32; k and n are multiples of
// 8, rows are aligned to 16 bytes. Sums are float32.
struct HalfProduct {
  void *a, *b, *bias, *residual, *y; // bias and residual may be null
  i64 arow;
  int m, n, k, act;
  float alpha;
  int fixed; // b and bias are weights, which no kernel writes
};
