// Attention in one pass by mma.sync, of 16-bit floats, for heads of 32, 64 and 128 elements that lie together.
#include "half.cuh"

struct Attention { // as in attention.cu
  void *q, *k, *v, *mask, *y;
  i64 qs[3], ks[3], vs[3], qd, kd, vd, ms[4];
  int batch, queries, keys, heads, groups, size, values;
  int mask_kind, kind, causal, offset, window, guard;
  float scale, cap;
};

template <class T> DI float mask_at(const Attention& p, i64 at) {
  return p.mask_kind == BOOL ? ((const uint8_t*)p.mask)[at] ? 0.f : -INFINITY : to_float(((const T*)p.mask)[at]);
}

// A block has 64 queries of a head, 16 a warp, and 64 keys at a time. GENERAL: masks that depend on the query, windows, caps;
// otherwise at most a mask by keys. Scores are in powers of two.
template <class T, int D, bool GENERAL> DI void attend(const Attention& p) {
  constexpr int ROW = D * 2, TILE = 64 * ROW, C = D / 8;
  const float LOG2E = 1.44269504f, LOWEST = -1e30f;
  extern __shared__ __align__(128) char sm[];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int head = blockIdx.y % p.heads, group = head / (p.heads / p.groups);
  const i64 bat = blockIdx.y / p.heads;
  const uint32_t sq = shared_at(sm);
  auto turn = [](int r, int c) { return C == 4 ? c ^ (r >> 1 & 3) : c ^ (r & 7); };
  auto tile = [&](uint32_t to, const T* from, i64 step, int r0, int rows) {
#pragma unroll
    for (int i = 0; i < 64 * C / 128; i++) {
      int v = i * 128 + t, r = v / C, c = v % C;
      bool there = r0 + r < rows;
      copy16(to + r * ROW + turn(r, c) * 16, there ? from + (r0 + r) * step + c * 8 : from, there);
    }
  };
  const T* q = (const T*)p.q + bat * p.qs[0] + head * p.qs[2];
  const T* k = (const T*)p.k + bat * p.ks[0] + group * p.ks[2];
  const T* v = (const T*)p.v + bat * p.vs[0] + group * p.vs[2];
  const int q0 = blockIdx.x * 64, tiles = (p.keys + 63) / 64;
  tile(sq, q, p.qs[1], q0, p.queries);
  tile(sq + TILE, k, p.ks[1], 0, p.keys);
  tile(sq + 3 * TILE, v, p.vs[1], 0, p.keys);
  commit();
  float o[D / 8][4] = {}, top[2] = {LOWEST, LOWEST}, sum[2] = {0.f, 0.f};
  uint32_t fq[D / 16][4];
  const i64 mask0 = bat * p.ms[0] + head * p.ms[1];
  const float scale = p.scale * LOG2E;
  for (int j = 0; j < tiles; j++) {
    float by_key[8][2]; // what is added to the scores of a key, asked for before the keys are there
    if (!GENERAL) {
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          int key = j * 64 + n * 8 + lane % 4 * 2 + e;
          by_key[n][e] = key >= p.keys ? -INFINITY : p.mask ? mask_at<T>(p, mask0 + key * p.ms[3]) * LOG2E : 0.f;
        }
    }
    uint32_t sk = sq + TILE * (1 + (j & 1)), sv = sq + TILE * (3 + (j & 1));
    wait_copies<0>();
    __syncthreads();
    if (j + 1 < tiles) {
      tile(sq + TILE * (1 + (j + 1 & 1)), k, p.ks[1], (j + 1) * 64, p.keys);
      tile(sq + TILE * (3 + (j + 1 & 1)), v, p.vs[1], (j + 1) * 64, p.keys);
      commit();
    }
    if (j == 0) {
#pragma unroll
      for (int d = 0; d < D / 16; d++) {
        int r = warp * 16 + (lane & 15), c = d * 2 + (lane >> 4);
        matrices(fq[d], sq + r * ROW + turn(r, c) * 16);
      }
    }
    float s[8][4] = {};
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int d = 0; d < D / 16; d++) {
        uint32_t b[4];
        int r = n * 16 + (lane & 7) + (lane >> 4) * 8, c = d * 2 + (lane >> 3 & 1);
        matrices(b, sk + r * ROW + turn(r, c) * 16);
        mma<T>(s[n * 2], fq[d], b[0], b[1]);
        mma<T>(s[n * 2 + 1], fq[d], b[2], b[3]);
      }
    float m[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = j * 64 + n * 8 + lane % 4 * 2 + (e & 1);
        if (GENERAL) {
          float x = s[n][e] * p.scale;
          int row = q0 + warp * 16 + lane / 4 + (e >> 1) * 8, place = p.offset ? row + p.keys - p.queries : row;
          if (p.cap != 0.f) x = p.cap * tanhf(x / p.cap);
          if (p.mask && key < p.keys && row < p.queries) x += mask_at<T>(p, mask0 + row * p.ms[2] + key * p.ms[3]);
          if (p.causal && key > place || p.window > 0 && abs(key - place) >= p.window) x = -INFINITY;
          s[n][e] = key < p.keys ? x * LOG2E : -INFINITY;
        } else {
          s[n][e] = fmaf(s[n][e], scale, by_key[n][e & 1]);
        }
        m[e >> 1] = fmaxf(m[e >> 1], s[n][e]);
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      m[h] = fmaxf(m[h], __shfl_xor_sync(~0u, m[h], 1));
      m[h] = fmaxf(m[h], __shfl_xor_sync(~0u, m[h], 2));
      float f = exp2f(top[h] - m[h]);
      top[h] = m[h];
      sum[h] *= f;
#pragma unroll
      for (int n = 0; n < D / 8; n++) o[n][h * 2] *= f, o[n][h * 2 + 1] *= f;
    }
    uint32_t w[4][4];
#pragma unroll
    for (int n = 0; n < 8; n++) {
      float e0 = exp2f(s[n][0] - top[0]), e1 = exp2f(s[n][1] - top[0]), e2 = exp2f(s[n][2] - top[1]), e3 = exp2f(s[n][3] - top[1]);
      sum[0] += e0 + e1, sum[1] += e2 + e3;
      w[n / 2][n % 2 * 2] = pack2<T>(e0, e1), w[n / 2][n % 2 * 2 + 1] = pack2<T>(e2, e3);
    }
#pragma unroll
    for (int d = 0; d < 4; d++)
#pragma unroll
      for (int n = 0; n < D / 16; n++) {
        uint32_t b[4];
        int r = d * 16 + (lane & 15), c = n * 2 + (lane >> 4);
        matrices_turned(b, sv + r * ROW + turn(r, c) * 16);
        mma<T>(o[n * 2], w[d], b[0], b[1]);
        mma<T>(o[n * 2 + 1], w[d], b[2], b[3]);
      }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    float f = p.guard && sum[h] == 0.f ? 0.f : 1.f / sum[h];
    int r = q0 + warp * 16 + lane / 4 + h * 8;
    if (r >= p.queries) continue;
    T* y = (T*)p.y + ((bat * p.queries + r) * p.heads + head) * (i64)D;
#pragma unroll
    for (int n = 0; n < D / 8; n++) *(uint32_t*)(y + n * 8 + lane % 4 * 2) = pack2<T>(o[n][h * 2] * f, o[n][h * 2 + 1] * f);
  }
}
#define FLASH(D)                                                                                                                         \
  KERNEL __launch_bounds__(128) void flash_f16_##D(const __grid_constant__ Attention p) { attend<__half, D, false>(p); }                 \
  KERNEL __launch_bounds__(128) void flash_f16_##D##_general(const __grid_constant__ Attention p) { attend<__half, D, true>(p); }        \
  KERNEL __launch_bounds__(128) void flash_bf16_##D(const __grid_constant__ Attention p) { attend<__nv_bfloat16, D, false>(p); }         \
  KERNEL __launch_bounds__(128) void flash_bf16_##D##_general(const __grid_constant__ Attention p) { attend<__nv_bfloat16, D, true>(p); }
FLASH(32)
FLASH(64)
FLASH(128)
