// Attention in one pass, for heads of 32, 64 and 128 adjacent elements: what the kernels by mma.sync and by wgmma share.
#pragma once
#include "attention.cuh"
#include "half.cuh"

// A tile in shared memory has rows of at most 128 bytes, whose chunks of 16 bytes are swizzled as wgmma reads them. Longer rows are in
// several tiles, one after the other.
template <class T, int D> struct Tile {
  static const int E = 16 / sizeof(T), C = D / E, W = C < 8 ? C : 8, ROW = W * 16;
  template <int ROWS> DI static int at(int r, int c) { return c / W * (ROWS * ROW) + r * ROW + (c % W ^ (W == 4 ? r >> 1 & 3 : r & 7)) * 16; }
};

template <int N> struct Number { static const int value = N; };

// A lane's weights are those of a left operand, as pairs.
template <class T, int N> DI void pack_weights(uint32_t (&w)[N / 2][4], const float (&s)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; n++) w[n / 2][n % 2 * 2] = pack2<T>(s[n][0], s[n][1]), w[n / 2][n % 2 * 2 + 1] = pack2<T>(s[n][2], s[n][3]);
}

// A block has 64 queries of a head, 16 a warp, and Unit::KEYS keys at a time. GENERAL: masks that depend on the query, windows, caps;
// otherwise at most a mask by keys. Scores are in powers of two. Of sequences of their own lengths, a block's queries may be of several: it goes over
// the keys of all of them.
template <class Unit, bool GENERAL, class P> DI void attend(const P& p) {
  using T = typename Unit::Type;
  constexpr int D = Unit::SIZE, KEYS = Unit::KEYS;
  typedef Tile<T, D> Rows;
  constexpr int QUERIES = 64 * D * sizeof(T), TILE = KEYS * D * sizeof(T); // bytes
  const float LOG2E = 1.44269504f, LOWEST = -1e30f;
  extern __shared__ __align__(Unit::ALIGN) char sm[];
  __shared__ float by_key[2][KEYS]; // what is added to the scores of a key; in sequences, where it is, an integer
  __shared__ Sequences<64> sequences;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int head = blockIdx.y, group = head / (p.heads / p.groups);
  const i64 bat = blockIdx.z;
  const uint32_t sq = shared_at(sm);
  const T* q = (const T*)p.q + bat * p.qs[0] + head * p.qs[2];
  const T* k = (const T*)p.k + bat * p.ks[0] + group * p.ks[2];
  const T* v = (const T*)p.v + bat * p.vs[0] + group * p.vs[2];
  const int q0 = blockIdx.x * 64;
  int k0 = 0, end = p.keys;
  // bring copies rows of 16-byte chunks from r0 on; those from end on are zeros.
  auto bring = [&](auto rows, uint32_t to, const T* from, i64 step, int r0, int end) {
    constexpr int ROWS = decltype(rows)::value, AT_ONCE = 128 / Rows::C;
    const int r = threadIdx.x / Rows::C, c = threadIdx.x % Rows::C;
    from += (r0 + r) * step + c * Rows::E;
#pragma unroll
    for (int i = 0; i < ROWS; i += AT_ONCE, from += AT_ONCE * step) copy16(to + Rows::template at<ROWS>(r, c) + i * Rows::ROW, from, r0 + r + i < end);
  };
  auto stage = [&](int j) { return sq + QUERIES + (j & 1) * 2 * TILE; };
  auto bring_keys = [&](int j) {
    bring(Number<KEYS>(), stage(j), k, p.ks[1], k0 + j * KEYS, end);
    bring(Number<KEYS>(), stage(j) + TILE, v, p.vs[1], k0 + j * KEYS, end);
    commit();
  };
  wait_for_last();
  bring(Number<64>(), sq, q, p.qs[1], q0, p.queries);
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
  const int tiles = max(1, (end - k0 + KEYS - 1) / KEYS);
  bring_keys(0);
  float o[D / 8][4] = {}, top[2] = {LOWEST, LOWEST}, sum[2] = {0.f, 0.f};
  Unit unit;
  const i64 mask0 = bat * p.ms[0] + head * p.ms[1];
  const float scale = p.scale * LOG2E;
  // added is what a thread of the first KEYS adds to the scores of its key of tile j.
  auto ask = [&](int j) {
    int key = k0 + j * KEYS + t;
    if constexpr (by_sequence<P>) return __int_as_float(GENERAL && p.positions && t < KEYS ? position_of(p, key) : 0);
    return t >= KEYS || key >= p.keys ? -INFINITY : !GENERAL && p.mask ? mask_at<T>(p, mask0 + key * p.ms[3]) * LOG2E : 0.f;
  };
  float added = ask(0);
  for (int j = 0; j < tiles; j++) {
    if ((GENERAL || !by_sequence<P>) && t < KEYS) by_key[j & 1][t] = added;
    wait_copies<0>();
    Unit::written();
    __syncthreads();
    added = ask(j + 1);
    if (j + 1 < tiles) bring_keys(j + 1);
    if (j == 0) unit.load(sq);
    float s[KEYS / 8][4];
    unit.scores(s, stage(j));
    float m[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = k0 + j * KEYS + n * 8 + lane % 4 * 2 + (e & 1);
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
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[n][e] = power2(s[n][e] - top[e >> 1]);
        sum[e >> 1] += s[n][e];
      }
    }
    unit.weigh(o, s, stage(j) + TILE);
  }
  start_next(); // later than elsewhere: kernels that wait all the while cost a run of MiniLM at (1,128) a sixth
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
#define FLASH_OF(name, Unit, OCCUPANCY, P)                                                                                   \
  KERNEL __launch_bounds__(128, OCCUPANCY) void flash_##name(const __grid_constant__ P p) { attend<Unit, false>(p); }          \
  KERNEL __launch_bounds__(128, OCCUPANCY) void flash_##name##_general(const __grid_constant__ P p) { attend<Unit, true>(p); }
#define FLASH(name, OCCUPANCY, ...)                       \
  typedef __VA_ARGS__ Unit_##name;                        \
  FLASH_OF(name, Unit_##name, OCCUPANCY, Attention)       \
  FLASH_OF(name##_rows, Unit_##name, OCCUPANCY, RowsAttention)
