// What the kernels of products of 8-bit values share.
#pragma once
#include "common.cuh"

// y[m,n] = Σ (a − a_zero)·(b − b_zero) in int32, plus an int32 bias; and where there are scales, times them, plus a float bias, through
// act, plus residual, quantised again where there is y_scale. a is row-major.
struct QProduct {
  void *a, *b, *a_zero, *b_zero, *bias, *residual, *y, *y_zero; // the zeros, bias and residual may be null
  float *a_scale, *b_scale, *y_scale;                           // may be null
  i64 alead, blead, brow, bcol;                                 // elements from one product of a batch to the next, and of b
  int m, n, k, act;
  int a_signed, b_signed, y_signed, whole_bias;
  int zero_step, scale_step, y_step; // along the columns: 0 for one number, 1 for a number each
  int plain;                         // no column of b has a zero point (qmma)
  int by_row;                        // a_zero and a_scale have a number for each row; a scale of 0 makes the row's results 0
};

DI int value_at(const void* p, int is_signed, i64 i) { return is_signed ? (int)((const int8_t*)p)[i] : (int)((const uint8_t*)p)[i]; }

// code is the quantised value of v, which is in units of the scale: ties to even, saturated. A NaN becomes the least.
DI int code(float v, float zero, float lo, float hi) { return (int)fminf(fmaxf(rintf(v) + zero, lo), hi); }

// zero_of is the zero point of a row of a.
DI int zero_of(const QProduct& p, int is_signed, int row) { return p.a_zero ? value_at(p.a_zero, is_signed, p.by_row ? row : 0) : 0; }

// The range of floats, widened to hold 0. A NaN is passed over.
DI float2 wider(float2 r, float lo, float hi) { return {fminf(r.x, lo), fmaxf(r.y, hi)}; }
DI float2 block_range(float2 r) { // of 256 threads
  __shared__ float2 warps[8];
#pragma unroll
  for (int d = 16; d; d /= 2) r = wider(r, __shfl_xor_sync(~0u, r.x, d), __shfl_xor_sync(~0u, r.y, d));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = r;
  __syncthreads();
  r = warps[threadIdx.x % 8];
#pragma unroll
  for (int d = 4; d; d /= 2) r = wider(r, __shfl_xor_sync(~0u, r.x, d), __shfl_xor_sync(~0u, r.y, d));
  return r;
}

// The scale and the zero point of unsigned values for floats of a range.
struct Step {
  float scale, zero;
};
DI Step step_of(float2 range) {
  float scale = (range.y - range.x) / 255.f;
  if (scale == 0.f) scale = 1.f;
  return {scale, rintf(fminf(-range.x / scale, 255.f))};
}

// finish writes the result that has this sum. It rounds after every operation, as the reference does.
DI void finish(const QProduct& p, int sum, i64 row, int col) {
  i64 at = row * p.n + col;
  if (p.bias && p.whole_bias) sum += ((const int*)p.bias)[col];
  if (!p.b_scale) {
    ((int*)p.y)[at] = sum;
    return;
  }
  float a_scale = p.a_scale[p.by_row ? row : 0];
  float v = __fmul_rn((float)sum, __fmul_rn(a_scale, p.b_scale[p.scale_step * col]));
  if (p.bias && !p.whole_bias) v = __fadd_rn(v, ((const float*)p.bias)[col]);
  v = activate(p.act, v);
  if (p.residual) v = __fadd_rn(v, ((const float*)p.residual)[at]);
  bool nothing = p.by_row && a_scale == 0.f;
  if (!p.y_scale) {
    ((float*)p.y)[at] = nothing ? 0.f : v;
    return;
  }
  int k = p.y_step * col;
  float low = p.y_signed ? -128.f : 0.f;
  ((uint8_t*)p.y)[at] = nothing ? 0 : (uint8_t)code(v / p.y_scale[k], (float)value_at(p.y_zero, p.y_signed, k), low, low + 255.f);
}
