// Attention in one pass by mma.sync, of 16-bit floats and of float32 as tf32, for heads of 32, 64 and 128 adjacent elements.
#include "attention.cuh"
#include "half.cuh"

template <class T> DI void round4(uint32_t (&r)[4]) {
  if (sizeof(T) == 4)
#pragma unroll
    for (int e = 0; e < 4; e++) r[e] = round_tf32(r[e]);
}

// A block has 64 queries of a head, 16 a warp, and 64 keys at a time. GENERAL: masks that depend on the query, windows, caps;
// otherwise at most a mask by keys. Scores are in powers of two. Of sequences of their own lengths, a block's queries may be of several: it goes over
// the keys of all of them.
template <class T, int D, bool GENERAL, class P> DI void attend(const P& p) {
  constexpr bool TF32 = sizeof(T) == 4;
  constexpr int E = 16 / sizeof(T), K = 2 * E; // elements of a chunk, and of the inner axis of a multiplication
  constexpr int ROW = D * sizeof(T), TILE = 64 * ROW, C = D / E;
  const float LOG2E = 1.44269504f, LOWEST = -1e30f;
  extern __shared__ __align__(128) char sm[];
  __shared__ float by_key[2][64]; // what is added to the scores of a key; in sequences, where it is, an integer
  __shared__ Sequences<64> sequences;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int head = blockIdx.y % p.heads, group = head / (p.heads / p.groups);
  const i64 bat = blockIdx.y / p.heads;
  const uint32_t sq = shared_at(sm);
  auto swizzle = [](int r, int c) { return C == 4 ? c ^ (r >> 1 & 3) : c ^ (r & 7); };
  auto tile = [&](uint32_t to, const T* from, i64 step, int r0, int rows) {
#pragma unroll
    for (int i = 0; i < 64 * C / 128; i++) {
      int v = i * 128 + t, r = v / C, c = v % C;
      bool there = r0 + r < rows;
      copy16(to + r * ROW + swizzle(r, c) * 16, there ? from + (r0 + r) * step + c * E : from, there);
    }
  };
  const T* q = (const T*)p.q + bat * p.qs[0] + head * p.qs[2];
  const T* k = (const T*)p.k + bat * p.ks[0] + group * p.ks[2];
  const T* v = (const T*)p.v + bat * p.vs[0] + group * p.vs[2];
  const int q0 = blockIdx.x * 64;
  int k0 = 0, end = p.keys;
  tile(sq, q, p.qs[1], q0, p.queries);
  auto row_of = [&](int h) { return q0 + warp * 16 + lane / 4 + h * 8; };
  int lo[2], count[2], sequence[2], here[2]; // of a thread's two queries
  if constexpr (by_sequence<P>) {
    find(sequences, p, q0);
    k0 = sequences.first, end = sequences.end;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int2 ends = sequences.ends[row_of(h) - q0];
      lo[h] = ends.x, count[h] = ends.y - ends.x, sequence[h] = sequences.sequence[row_of(h) - q0];
      if (GENERAL) here[h] = query_position(p, row_of(h));
    }
  }
  const int tiles = max(1, (end - k0 + 63) / 64);
  tile(sq + TILE, k, p.ks[1], k0, end);
  tile(sq + 3 * TILE, v, p.vs[1], k0, end);
  commit();
  float o[D / 8][4] = {}, top[2] = {LOWEST, LOWEST}, sum[2] = {0.f, 0.f};
  uint32_t fq[D / K][4];
  const i64 mask0 = bat * p.ms[0] + head * p.ms[1];
  const float scale = p.scale * LOG2E;
  // added is what a thread of the first 64 adds to the scores of its key of tile j.
  auto ask = [&](int j) {
    int key = k0 + j * 64 + t;
    if constexpr (by_sequence<P>) return __int_as_float(GENERAL && p.positions && t < 64 ? position_of(p, key) : 0);
    return t >= 64 || key >= p.keys ? -INFINITY : !GENERAL && p.mask ? mask_at<T>(p, mask0 + key * p.ms[3]) * LOG2E : 0.f;
  };
  float added = ask(0);
  for (int j = 0; j < tiles; j++) {
    if ((GENERAL || !by_sequence<P>) && t < 64) by_key[j & 1][t] = added;
    uint32_t sk = sq + TILE * (1 + (j & 1)), sv = sq + TILE * (3 + (j & 1));
    wait_copies<0>();
    __syncthreads();
    added = ask(j + 1);
    if (j + 1 < tiles) {
      tile(sq + TILE * (1 + (j + 1 & 1)), k, p.ks[1], k0 + (j + 1) * 64, end);
      tile(sq + TILE * (3 + (j + 1 & 1)), v, p.vs[1], k0 + (j + 1) * 64, end);
      commit();
    }
    if (j == 0) {
#pragma unroll
      for (int d = 0; d < D / K; d++) {
        int r = warp * 16 + (lane & 15), c = d * 2 + (lane >> 4);
        matrices(fq[d], sq + r * ROW + swizzle(r, c) * 16);
        round4<T>(fq[d]);
      }
    }
    float s[8][4] = {};
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int d = 0; d < D / K; d++) {
        uint32_t b[4];
        int r = n * 16 + (lane & 7) + (lane >> 4) * 8, c = d * 2 + (lane >> 3 & 1);
        matrices(b, sk + r * ROW + swizzle(r, c) * 16);
        round4<T>(b);
        mma<T>(s[n * 2], fq[d], b[0], b[1]);
        mma<T>(s[n * 2 + 1], fq[d], b[2], b[3]);
      }
    float m[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = k0 + j * 64 + n * 8 + lane % 4 * 2 + (e & 1);
        if constexpr (by_sequence<P>) {
          float x = s[n][e] * scale;
          bool sees = (uint32_t)(key - lo[e >> 1]) < (uint32_t)count[e >> 1];
          if (GENERAL && sees) x = with_position<T>(p, s[n][e], sequence[e >> 1], head, here[e >> 1], __float_as_int(by_key[j & 1][n * 8 + lane % 4 * 2 + (e & 1)])) * LOG2E;
          s[n][e] = sees ? x : -INFINITY;
        } else if (GENERAL) {
          float x = s[n][e] * p.scale;
          int row = row_of(e >> 1), position = p.offset ? row + p.keys - p.queries : row;
          if (p.cap != 0.f) x = p.cap * tanhf(x / p.cap);
          if (p.mask && key < p.keys && row < p.queries) x += mask_at<T>(p, mask0 + row * p.ms[2] + key * p.ms[3]);
          if (p.causal && key > position || p.window > 0 && abs(key - position) >= p.window) x = -INFINITY;
          s[n][e] = key < p.keys ? x * LOG2E : -INFINITY;
        } else {
          s[n][e] = fmaf(s[n][e], scale, by_key[j & 1][n * 8 + lane % 4 * 2 + (e & 1)]);
        }
        m[e >> 1] = fmaxf(m[e >> 1], s[n][e]);
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      m[h] = fmaxf(m[h], __shfl_xor_sync(~0u, m[h], 1));
      m[h] = fmaxf(m[h], __shfl_xor_sync(~0u, m[h], 2));
      float f = power2(top[h] - m[h]);
      top[h] = m[h];
      sum[h] *= f;
#pragma unroll
      for (int n = 0; n < D / 8; n++) o[n][h * 2] *= f, o[n][h * 2 + 1] *= f;
    }
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[n][e] = power2(s[n][e] - top[e >> 1]);
        sum[e >> 1] += s[n][e];
      }
    }
    if constexpr (TF32) {
      // A lane's weights are those of keys 2i and 2i + 1 of eight: they take the positions i and i + 4 of the inner axis.
      auto value = [&](int r, int c) {
        return round_tf32(word_at(sv + r * ROW + swizzle(r, c / 4) * 16 + c % 4 * 4));
      };
#pragma unroll
      for (int n = 0; n < 8; n++) {
        uint32_t w[4] = {__float_as_uint(s[n][0]), __float_as_uint(s[n][2]), __float_as_uint(s[n][1]), __float_as_uint(s[n][3])};
        round4<T>(w);
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
          int r = n * 8 + lane % 4 * 2, c = d * 8 + lane / 4;
          mma<T>(o[d], w, value(r, c), value(r + 1, c));
        }
      }
    } else {
      uint32_t w[4][4];
#pragma unroll
      for (int n = 0; n < 8; n++) w[n / 2][n % 2 * 2] = pack2<T>(s[n][0], s[n][1]), w[n / 2][n % 2 * 2 + 1] = pack2<T>(s[n][2], s[n][3]);
#pragma unroll
      for (int d = 0; d < 4; d++)
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
          uint32_t b[4];
          int r = d * 16 + (lane & 15), c = n * 2 + (lane >> 4);
          matrices_transposed(b, sv + r * ROW + swizzle(r, c) * 16);
          mma<T>(o[n * 2], w[d], b[0], b[1]);
          mma<T>(o[n * 2 + 1], w[d], b[2], b[3]);
        }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    float f = p.guard && sum[h] == 0.f ? 0.f : 1.f / sum[h];
    int r = row_of(h);
    if (r >= p.queries) continue;
    T* y = (T*)p.y + ((bat * p.queries + r) * p.heads + head) * (i64)D;
#pragma unroll
    for (int n = 0; n < D / 8; n++) store2<T>(y, n * 8 + lane % 4 * 2, o[n][h * 2] * f, o[n][h * 2 + 1] * f);
  }
}
#define FLASH_OF(D, name, T, OCCUPANCY, P)                                                                                \
  KERNEL __launch_bounds__(128, OCCUPANCY) void flash_##name(const __grid_constant__ P p) { attend<T, D, false>(p); }       \
  KERNEL __launch_bounds__(128, OCCUPANCY) void flash_##name##_general(const __grid_constant__ P p) { attend<T, D, true>(p); }
#define FLASH(D, name, T, OCCUPANCY)                \
  FLASH_OF(D, name##_##D, T, OCCUPANCY, Attention)  \
  FLASH_OF(D, name##_##D##_rows, T, OCCUPANCY, RowsAttention)
FLASH(32, f16, __half, 4)
FLASH(64, f16, __half, 3)
FLASH(128, f16, __half, 1)
FLASH(32, bf16, __nv_bfloat16, 4)
FLASH(64, bf16, __nv_bfloat16, 3)
FLASH(128, bf16, __nv_bfloat16, 1)
FLASH(32, tf32, float, 2)
FLASH(64, tf32, float, 2)
