// Attention in one pass (online softmax, arXiv 2205.14135) in float32 arithmetic, for heads of any size, any strides and all
// kinds of masks, in padded sequences and in sequences of their own lengths.
#include "attention.cuh"

const int ROWS = 16, KEYS = 32; // of a block, at a time

// A block of 128 threads has ROWS queries of a head. Eight threads share a query: each has every eighth key of a tile, and
// every eighth element of the result. Tiles of keys and values are in shared memory as float32, rows padded by one.
template <class T, class P> DI void attend(const P& p) {
  extern __shared__ float sm[];
  __shared__ Sequences<ROWS> sequences;
  const int t = threadIdx.x, r = t / 8, lane = t % 8;
  const int h = blockIdx.y, g = h / (p.heads / p.groups);
  const i64 b = blockIdx.z;
  const int row = blockIdx.x * ROWS + r, D = p.size, E = p.values;
  const int dp = D + 1, ep = E + 1;
  float *qs = sm, *ks = qs + ROWS * dp, *vs = ks + KEYS * dp, *ps = vs + KEYS * ep, *os = ps + ROWS * KEYS;
  const T *q = (const T*)p.q + b * p.qs[0] + h * p.qs[2], *k = (const T*)p.k + b * p.ks[0] + g * p.ks[2],
          *v = (const T*)p.v + b * p.vs[0] + g * p.vs[2];
  for (int i = t; i < ROWS * D; i += 128) {
    int s = blockIdx.x * ROWS + i / D;
    qs[i / D * dp + i % D] = s < p.queries ? to_float(q[s * p.qs[1] + i % D * p.qd]) : 0.f;
  }
  for (int i = t; i < ROWS * ep; i += 128) os[i] = 0.f;
  int first = 0, end = p.keys, here = 0;
  if constexpr (by_sequence<P>) {
    find(sequences, p, blockIdx.x * ROWS);
    first = sequences.first, end = sequences.end, here = query_position(p, row);
  }
  // score is that of the thread's query and a key before the end.
  auto score = [&](float s, int j) {
    if constexpr (by_sequence<P>) {
      int there = p.positions ? position_of(p, j) : 0;
      if (j < sequences.ends[r].x || j >= sequences.ends[r].y) return -INFINITY;
      return with_position<T>(p, s, sequences.sequence[r], h, here, there) + relative<T>(p.by_query, h, row, here, there) + relative<T>(p.by_key, h, j, there, here);
    } else {
      return masked(p, s, b, h, row, j);
    }
  };
  float top = -INFINITY, total = 0.f;
  for (int j0 = first; j0 < end; j0 += KEYS) {
    __syncthreads();
    for (int i = t; i < KEYS * D; i += 128) {
      int j = j0 + i / D;
      ks[i / D * dp + i % D] = j < end ? to_float(k[j * p.ks[1] + i % D * p.kd]) : 0.f;
    }
    for (int i = t; i < KEYS * E; i += 128) {
      int j = j0 + i / E;
      vs[i / E * ep + i % E] = j < end ? to_float(v[j * p.vs[1] + i % E * p.vd]) : 0.f;
    }
    __syncthreads();
    float s[KEYS / 8], m = top;
#pragma unroll
    for (int e = 0; e < KEYS / 8; e++) s[e] = 0.f;
    for (int d = 0; d < D; d++) {
      float x = qs[r * dp + d];
#pragma unroll
      for (int e = 0; e < KEYS / 8; e++) s[e] = fmaf(x, ks[(e * 8 + lane) * dp + d], s[e]);
    }
    bool nan = false;
#pragma unroll
    for (int e = 0; e < KEYS / 8; e++) {
      int j = j0 + e * 8 + lane;
      s[e] = j < end && row < p.queries ? score(s[e], j) : -INFINITY;
      nan |= s[e] != s[e];
      m = fmaxf(m, s[e]);
    }
#pragma unroll
    for (int i = 4; i; i >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, i));
    // Where all keys so far are excluded, exponentials are taken from 0: they are 0.
    float base = m == -INFINITY ? 0.f : m, shrink = expf(top - base), part = 0.f;
    if (top == -INFINITY) shrink = 0.f;
    top = m;
#pragma unroll
    for (int e = 0; e < KEYS / 8; e++) {
      float x = expf(s[e] - base);
      ps[r * KEYS + e * 8 + lane] = x;
      part += x;
    }
#pragma unroll
    for (int i = 4; i; i >>= 1) part += __shfl_xor_sync(~0u, part, i);
    total = total * shrink + part;
    __syncwarp();
    int left = min(KEYS, end - j0);
    for (int c = lane; c < E; c += 8) {
      float o = os[r * ep + c] * shrink;
      for (int j = 0; j < left; j++) o = fmaf(ps[r * KEYS + j], vs[j * ep + c], o);
      os[r * ep + c] = o;
    }
  }
  if (row >= p.queries) return;
  T* y = (T*)p.y + ((b * p.queries + row) * p.heads + h) * (i64)E;
  for (int c = lane; c < E; c += 8) y[c] = from_float<T>(p.guard && total == 0.f ? 0.f : os[r * ep + c] / total);
}
#define ATTENTION(name, T)                                                                                                       \
  KERNEL __launch_bounds__(128) void attention_##name(const __grid_constant__ Attention p) { attend<T>(p); }                     \
  KERNEL __launch_bounds__(128) void attention_##name##_rows(const __grid_constant__ RowsAttention p) { attend<T>(p); }
ATTENTION(f32, float)
ATTENTION(f16, __half)
ATTENTION(bf16, __nv_bfloat16)
