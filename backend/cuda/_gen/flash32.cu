// Attention in one pass in float32 arithmetic, for heads of 32, 64 and 128 adjacent elements.
#include "attention.cuh"

// A block has 64 queries of a head and 64 keys at a time, its 128 threads a grid of 8 × 16: a thread has eight queries, four of the
// keys and D/16 of the results' columns. Queries, keys and weights are in shared memory with their rows across, so that a thread
// reads its own by fours.
// GENERAL: as in flash.cu.
template <int D, bool GENERAL, class P> DI void attend(const P& p) {
  constexpr int ROWS = 64, PITCH = ROWS + 4, COLS = D / 16;
  extern __shared__ __align__(16) float sm[];
  __shared__ float by_key[ROWS]; // what is added to the scores of a key; in sequences, where it is, an integer
  __shared__ Sequences<ROWS> sequences;
  float *qs = sm, *ks = qs + D * PITCH, *ps = ks + D * PITCH, *vs = ps + ROWS * PITCH;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int h = blockIdx.y, g = h / (p.heads / p.groups);
  const i64 b = blockIdx.z;
  const int q0 = blockIdx.x * ROWS;
  const float *q = (const float*)p.q + b * p.qs[0] + h * p.qs[2], *k = (const float*)p.k + b * p.ks[0] + g * p.ks[2],
              *v = (const float*)p.v + b * p.vs[0] + g * p.vs[2];
  // across puts 64 rows with their elements PITCH apart; neighbours in a warp have rows of their own.
  auto across = [&](float* to, const float* from, i64 step, int first, int rows) {
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
      int r = t % 64, c = (i * 2 + t / 64) * 4;
      float4 x = first + r < rows ? *(const float4*)(from + (first + r) * step + c) : make_float4(0.f, 0.f, 0.f, 0.f);
      to[(c + 0) * PITCH + r] = x.x, to[(c + 1) * PITCH + r] = x.y, to[(c + 2) * PITCH + r] = x.z, to[(c + 3) * PITCH + r] = x.w;
    }
  };
  across(qs, q, p.qs[1], q0, p.queries);
  int k0 = 0, end = p.keys;
  if constexpr (by_sequence<P>) find(sequences, p, q0), k0 = sequences.first, end = sequences.end;
  float o[8][COLS] = {}, top[8], total[8];
#pragma unroll
  for (int i = 0; i < 8; i++) top[i] = -INFINITY, total[i] = 0.f;
  for (int j0 = k0; j0 < end; j0 += ROWS) {
    __syncthreads();
    if constexpr (by_sequence<P>) {
      if (GENERAL && p.positions && t < ROWS) by_key[t] = __int_as_float(position_of(p, j0 + t));
    } else if (!GENERAL && t < ROWS) by_key[t] = j0 + t < p.keys ? masked(p, 0.f, b, h, 0, j0 + t) : -INFINITY;
    across(ks, k, p.ks[1], j0, end);
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
      int n = i * 128 + t, r = n / (D / 4), c = n % (D / 4) * 4;
      *(float4*)&vs[r * D + c] = j0 + r < end ? *(const float4*)(v + (j0 + r) * p.vs[1] + c) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    __syncthreads();
    float s[8][4] = {};
#pragma unroll 8
    for (int d = 0; d < D; d++) {
      float x[8], y[4];
      *(float4*)&x[0] = *(const float4*)&qs[d * PITCH + ty * 8];
      *(float4*)&x[4] = *(const float4*)&qs[d * PITCH + ty * 8 + 4];
      *(float4*)&y[0] = *(const float4*)&ks[d * PITCH + tx * 4];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[i][e] = fmaf(x[i], y[e], s[i][e]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
      int row = q0 + ty * 8 + i;
      float m = top[i];
      int2 ends = make_int2(0, 0);
      int here = 0;
      if constexpr (by_sequence<P>) ends = sequences.ends[ty * 8 + i];
      if constexpr (by_sequence<P> && GENERAL) here = query_position(p, row);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int j = j0 + tx * 4 + e;
        if constexpr (by_sequence<P>) {
          float x = s[i][e] * p.scale;
          bool sees = j >= ends.x && j < ends.y;
          if (GENERAL && sees) x = with_position<float>(p, s[i][e], sequences.sequence[ty * 8 + i], h, here, __float_as_int(by_key[tx * 4 + e]));
          s[i][e] = sees ? x : -INFINITY;
        } else if (GENERAL) s[i][e] = j < p.keys && row < p.queries ? masked(p, s[i][e], b, h, row, j) : -INFINITY;
        else s[i][e] = fmaf(s[i][e], p.scale, by_key[tx * 4 + e]);
        m = fmaxf(m, s[i][e]);
      }
#pragma unroll
      for (int e = 8; e; e >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, e));
      // Where all keys so far are excluded, exponentials are taken from 0: they are 0.
      float base = m == -INFINITY ? 0.f : m, shrink = top[i] == -INFINITY ? 0.f : expf(top[i] - base), part = 0.f;
      top[i] = m;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[i][e] = expf(s[i][e] - base);
        part += s[i][e];
      }
#pragma unroll
      for (int e = 8; e; e >>= 1) part += __shfl_xor_sync(~0u, part, e);
      total[i] = total[i] * shrink + part;
#pragma unroll
      for (int c = 0; c < COLS; c++) o[i][c] *= shrink;
    }
    // A warp's queries are its own: it needs to wait for itself alone.
    __syncwarp();
#pragma unroll
    for (int e = 0; e < 4; e++) {
      *(float4*)&ps[(tx * 4 + e) * PITCH + ty * 8] = make_float4(s[0][e], s[1][e], s[2][e], s[3][e]);
      *(float4*)&ps[(tx * 4 + e) * PITCH + ty * 8 + 4] = make_float4(s[4][e], s[5][e], s[6][e], s[7][e]);
    }
    __syncwarp();
#pragma unroll 8
    for (int j = 0; j < ROWS; j++) {
      float x[8], y[COLS];
      *(float4*)&x[0] = *(const float4*)&ps[j * PITCH + ty * 8];
      *(float4*)&x[4] = *(const float4*)&ps[j * PITCH + ty * 8 + 4];
#pragma unroll
      for (int c = 0; c < COLS; c += min(4, COLS)) {
        if (COLS >= 4) *(float4*)&y[c] = *(const float4*)&vs[j * D + c / 4 * 64 + tx * 4];
        else *(float2*)&y[c] = *(const float2*)&vs[j * D + tx * 2];
      }
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++) o[i][c] = fmaf(x[i], y[c], o[i][c]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int row = q0 + ty * 8 + i;
    if (row >= p.queries) continue;
    float* y = (float*)p.y + ((b * p.queries + row) * p.heads + h) * (i64)D;
#pragma unroll
    for (int c = 0; c < COLS; c++) o[i][c] = p.guard && total[i] == 0.f ? 0.f : o[i][c] / total[i];
    if (COLS == 2) {
      *(float2*)(y + tx * 2) = make_float2(o[i][0], o[i][1]);
    } else {
#pragma unroll
      for (int c = 0; c < COLS; c += 4) *(float4*)(y + c / 4 * 64 + tx * 4) = make_float4(o[i][c], o[i][c + 1], o[i][c + 2], o[i][c + 3]);
    }
  }
}
#define FLASH_OF(D, name, P)                                                                                          \
  KERNEL __launch_bounds__(128, 2) void flash_f32_##name(const __grid_constant__ P p) { attend<D, false>(p); }         \
  KERNEL __launch_bounds__(128, 2) void flash_f32_##name##_general(const __grid_constant__ P p) { attend<D, true>(p); }
#define FLASH(D)              \
  FLASH_OF(D, D, Attention)   \
  FLASH_OF(D, D##_rows, RowsAttention)
FLASH(32)
FLASH(64)
FLASH(128)
