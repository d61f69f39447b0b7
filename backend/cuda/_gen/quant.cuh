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
};

DI int value_at(const void* p, int is_signed, i64 i) { return is_signed ? (int)((const int8_t*)p)[i] : (int)((const uint8_t*)p)[i]; }

// code is the quantised value of v, which is in units of the scale: ties to even, saturated.
DI int code(float v, float zero, float lo, float hi) {
  float r = rintf(v) + zero;
  return (int)(r != r ? zero : fminf(fmaxf(r, lo), hi));
}

// finish writes the result that has this sum. It rounds after every operation, as the reference does.
DI void finish(const QProduct& p, int sum, i64 at, int col) {
  if (p.bias && p.whole_bias) sum += ((const int*)p.bias)[col];
  if (!p.b_scale) {
    ((int*)p.y)[at] = sum;
    return;
  }
  float v = __fmul_rn((float)sum, __fmul_rn(*p.a_scale, p.b_scale[p.scale_step * col]));
  if (p.bias && !p.whole_bias) v = __fadd_rn(v, ((const float*)p.bias)[col]);
  v = activate(p.act, v);
  if (p.residual) v = __fadd_rn(v, ((const float*)p.residual)[at]);
  if (!p.y_scale) {
    ((float*)p.y)[at] = v;
    return;
  }
  int k = p.y_step * col;
  float low = p.y_signed ? -128.f : 0.f;
  ((uint8_t*)p.y)[at] = (uint8_t)code(v / p.y_scale[k], (float)value_at(p.y_zero, p.y_signed, k), low, low + 255.f);
}
