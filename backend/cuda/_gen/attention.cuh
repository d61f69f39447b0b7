// What the kernels for attention share.
#pragma once
#include "common.cuh"

struct Attention {
  void *q, *k, *v, *mask, *y; // mask may be null
  i64 qs[3], ks[3], vs[3];    // strides of batch, position and head
  i64 qd, kd, vd;             // of a head's elements
  i64 ms[4];                  // mask's strides along batch, head, query and key, 0 where it is broadcast
  int batch, queries, keys, heads, groups, size, values;
  int mask_kind, kind, causal, offset, window, guard;
  float scale, cap;
};

// masked returns the score of a query and a key, −∞ where the key is excluded.
DI float masked(const Attention& p, float s, i64 b, int h, int i, int j) {
  s *= p.scale;
  if (p.cap != 0.f) s = p.cap * tanhf(s / p.cap);
  if (p.mask) {
    i64 at = b * p.ms[0] + h * p.ms[1] + i * p.ms[2] + j * p.ms[3];
    switch (p.mask_kind) {
    case BOOL: s = ((const uint8_t*)p.mask)[at] ? s : -INFINITY; break;
    case F16: s += __half2float(((const __half*)p.mask)[at]); break;
    case BF16: s += __bfloat162float(((const __nv_bfloat16*)p.mask)[at]); break;
    default: s += ((const float*)p.mask)[at];
    }
  }
  int place = p.offset ? i + p.keys - p.queries : i;
  if (p.causal && j > place || p.window > 0 && abs(j - place) >= p.window) s = -INFINITY;
  return s;
}
