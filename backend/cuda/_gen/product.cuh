// What products in float32 arithmetic share.
#pragma once
#include "common.cuh"

const int MAX_LEAD = 4;

// y = act(alpha·a·b + bias) + residual for each matrix of a batch. With more than one split, part s of the inner axis is
// summed up into parts[s], and sum_parts finishes.
struct Product {
  void *a, *b, *bias, *residual, *y; // bias and residual may be null; y and residual are row-major
  float* parts;                      // null where there is one split
  i64 arow, acol, brow, bcol;        // strides in elements
  int m, n, k, part, splits, act;    // part: of the inner axis, a split
  float alpha;
  int lead, lead_size[MAX_LEAD];
  i64 alead[MAX_LEAD], blead[MAX_LEAD];
};

template <class T> DI void finish(const Product& p, i64 batch, int row, int col, float v) {
  i64 at = (batch * p.m + row) * p.n + col;
  v *= p.alpha;
  if (p.bias) v += to_float(((const T*)p.bias)[col]);
  v = activate(p.act, v);
  if (p.residual) v += to_float(((const T*)p.residual)[at]);
  ((T*)p.y)[at] = from_float<T>(v);
}

// activate_sums applies a product's activation to a thread's sums, in a loop that is not unrolled: a copy of the functions for each
// sum would not fit the cache of instructions. slots has room for a row of every thread's sums.
template <int TM, int TN, int THREADS> DI void activate_sums(int act, float (&sums)[TM][TN], float* slots) {
  float* mine = slots + threadIdx.x;
#pragma unroll
  for (int i = 0; i < TM; i++) {
#pragma unroll
    for (int j = 0; j < TN; j++) mine[j * THREADS] = sums[i][j];
#pragma unroll 1
    for (int j = 0; j < TN; j += 2) {
      float x = activate(act, mine[j * THREADS]), y = activate(act, mine[(j + 1) * THREADS]);
      mine[j * THREADS] = x, mine[(j + 1) * THREADS] = y;
    }
#pragma unroll
    for (int j = 0; j < TN; j++) sums[i][j] = mine[j * THREADS];
  }
}

// complete makes results of a thread's sums but for the residual; col returns the column of a sum.
template <class T, int TM, int TN, int THREADS, class Col> DI void complete(const Product& p, float (&sums)[TM][TN], float* slots, Col col) {
#pragma unroll
  for (int j = 0; j < TN; j++) {
    float bias = p.bias && col(j) < p.n ? to_float(((const T*)p.bias)[col(j)]) : 0.f;
#pragma unroll
    for (int i = 0; i < TM; i++) sums[i][j] = sums[i][j] * p.alpha + bias;
  }
  if (p.act == ACT_NONE) return;
  __syncthreads(); // no thread reads the stages any more
  activate_sums<TM, TN, THREADS>(p.act, sums, slots);
}
