// Products by mma.sync, of 16-bit floats and of float32 as tf32: for Ampere and newer, and for few rows on every device.
#include "half.cuh"

// A block has BM × BN results, a warp WM × WN of them. Of the inner axis, ROW bytes are a step and ST steps are on their way. Where
// a product has few blocks, G groups of warps share the steps of one, group g every one that leaves g, and their sums are added up
// in order.
template <class T, int BM, int BN, int ROW, int WM, int WN, int ST, int G, int ACT> DI void product(const HalfProduct& p) {
  extern __shared__ __align__(128) char sm[];
  constexpr bool TF32 = sizeof(T) == 4;
  constexpr int E = 16 / sizeof(T), BK = ROW / sizeof(T);            // elements of a chunk of 16 bytes, and of a step
  constexpr int THREADS = BM / WM * (BN / WN) * 32, SA = BM * ROW, SB = BN * ROW;
  constexpr int CA = ROW / 16, CB = TF32 ? CA : BN / E, PB = 16 * CB; // chunks of a row, and bytes of a row of b
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS, warp = t / 32, lane = t % 32;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  const uint32_t base = shared_at(sm) + group * ST * (SA + SB);
  const T *A = (const T*)p.a, *B = (const T*)p.b;
  // Chunks are rotated by their row, so that ldmatrix meets no bank twice.
  auto swizzle_a = [](int r, int c) { return CA == 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3); };
  auto swizzle_b = [](int r, int c) { return CB >= 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3); };
  // A thread copies a chunk each of rows that are as far apart as the threads reach, and keeps where it is in every step.
  constexpr int RA = THREADS / CA, RB = THREADS / CB;
  const int ra = t / CA, ca = t % CA, rb = t / CB, cb = t % CB;
  const T* a_from = A + (m0 + ra) * p.arow + group * BK + ca * E;
  const T* b_from = TF32 ? B + (i64)(n0 + rb) * p.k + group * BK + cb * E : B + (i64)(group * BK + rb) * p.n + n0 + cb * E;
  const i64 a_rows = RA * p.arow, b_rows = (i64)RB * (TF32 ? p.k : p.n), b_steps = (i64)BK * G * (TF32 ? 1 : p.n);
  const uint32_t a_to = base + ra * ROW + swizzle_a(ra, ca) * 16, b_to = base + SA + rb * PB + swizzle_b(rb, cb) * 16;
  int a_k = p.k - group * BK - ca * E, b_k = p.k - group * BK - (TF32 ? cb * E : rb); // what is left of the inner axis
  const int a_left = p.m - m0 - ra, b_left = p.n - n0 - (TF32 ? rb : cb * E);
  auto load_a = [&](int s) {
    const T* from = a_from;
    const int left = a_k > 0 ? a_left : 0;
#pragma unroll
    for (int i = 0; i < BM; i += RA, from += a_rows) copy16(a_to + s * (SA + SB) + i * ROW, from, i < left);
    a_from += BK * G, a_k -= BK * G;
  };
  auto load_b = [&](int s) {
    const T* from = b_from;
    const int left = TF32 ? b_k > 0 ? b_left : 0 : b_left > 0 ? b_k : 0;
#pragma unroll
    for (int i = 0; i < SB / PB; i += RB, from += b_rows) copy16(b_to + s * (SA + SB) + i * PB, from, i < left);
    b_from += b_steps, b_k -= BK * G;
  };
  // What the sums are added to is asked for before they are there; of large tiles, column by column, for want of registers.
  constexpr bool EARLY = WM * WN <= 1024;
  typename Pair<T>::Raw raw_bias[WN / 8], residual[WN / 8][WM / 16][2];
  auto row_of = [&](int x, int h) { return m0 + wm + x * 16 + lane / 4 + h * 8; };
  auto ask = [&](int y) {
    int c = n0 + wn + y * 8 + lane % 4 * 2;
    if (c >= p.n) return;
    if (p.bias) raw_bias[y] = ask2<T>(p.bias, c);
#pragma unroll
    for (int x = 0; x < WM / 16; x++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        if (p.residual && row_of(x, h) < p.m) residual[y][x][h] = ask2<T>(p.residual, (i64)row_of(x, h) * p.n + c);
  };
  float acc[WM / 16][WN / 8][4] = {};
  const int steps = (p.k + BK * G - 1) / (BK * G); // of each group; what is beyond the end is zeros
  start_next();
  if (!p.fixed) wait_for_last();
#pragma unroll
  for (int s = 0; s < ST - 1; s++)
    if (s < steps) load_b(s);
  if (p.fixed) wait_for_last();
#pragma unroll
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load_a(s);
    commit();
  }
  if (EARLY && group == 0) {
#pragma unroll
    for (int y = 0; y < WN / 8; y++) ask(y);
  }
  for (int i = 0; i < steps; i++) {
    wait_copies<ST - 2>();
    __syncthreads();
    if (i + ST - 1 < steps) load_a((i + ST - 1) % ST), load_b((i + ST - 1) % ST);
    commit();
    uint32_t a = base + i % ST * (SA + SB), b = a + SA;
#pragma unroll
    for (int kk = 0; kk < CA; kk += 2) {
      uint32_t fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
      for (int x = 0; x < WM / 16; x++) {
        int r = wm + x * 16 + (lane & 15), c = kk + (lane >> 4);
        matrices(fa[x], a + r * ROW + swizzle_a(r, c) * 16);
        if (TF32) {
#pragma unroll
          for (int e = 0; e < 4; e++) fa[x][e] = round_tf32(fa[x][e]);
        }
      }
#pragma unroll
      for (int y = 0; y < WN / 16; y++) {
        if (TF32) {
          int r = wn + y * 16 + (lane & 7) + (lane >> 4) * 8, c = kk + (lane >> 3 & 1);
          matrices(fb[y], b + r * PB + swizzle_b(r, c) * 16);
        } else {
          int r = kk * E + (lane & 15), c = (wn + y * 16) / E + (lane >> 4);
          matrices_transposed(fb[y], b + r * PB + swizzle_b(r, c) * 16);
        }
      }
#pragma unroll
      for (int x = 0; x < WM / 16; x++)
#pragma unroll
        for (int y = 0; y < WN / 8; y++) mma<T>(acc[x][y], fa[x], fb[y / 2][y % 2 * 2], fb[y / 2][y % 2 * 2 + 1]);
    }
  }
  if (G > 1) {
    wait_copies<0>();
    __syncthreads();
    float* others = (float*)sm + t;
    if (group > 0) {
#pragma unroll
      for (int x = 0; x < WM / 16; x++)
#pragma unroll
        for (int y = 0; y < WN / 8; y++)
#pragma unroll
          for (int e = 0; e < 4; e++) others[(((group - 1) * (WM / 16) + x) * (WN / 8) + y) * 4 * THREADS + e * THREADS] = acc[x][y][e];
    }
    __syncthreads();
    if (group > 0) return;
#pragma unroll
    for (int g = 0; g < G - 1; g++)
#pragma unroll
      for (int x = 0; x < WM / 16; x++)
#pragma unroll
        for (int y = 0; y < WN / 8; y++)
#pragma unroll
          for (int e = 0; e < 4; e++) acc[x][y][e] += others[((g * (WM / 16) + x) * (WN / 8) + y) * 4 * THREADS + e * THREADS];
  }
#pragma unroll
  for (int y = 0; y < WN / 8; y++) {
    int c = n0 + wn + y * 8 + lane % 4 * 2;
    if (c >= p.n) continue;
    if (!EARLY) ask(y);
    float2 bias = p.bias ? get2<T>(raw_bias[y]) : make_float2(0.f, 0.f);
#pragma unroll
    for (int x = 0; x < WM / 16; x++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int r = row_of(x, h);
        if (r >= p.m) continue;
        float u = fmaf(acc[x][y][h * 2], p.alpha, bias.x), v = fmaf(acc[x][y][h * 2 + 1], p.alpha, bias.y);
        if (ACT) u = quick(ACT == ANY ? p.act : ACT, u), v = quick(ACT == ANY ? p.act : ACT, v);
        if (p.residual) {
          float2 q = get2<T>(residual[y][x][h]);
          u += q.x, v += q.y;
        }
        store2<T>(p.y, (i64)r * p.n + c, u, v);
      }
  }
}

#define MMA_AS(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, name, T, ACT)                                                               \
  KERNEL __launch_bounds__(BM / WM * (BN / WN) * 32 * G, OCCUPANCY) void mma_##name(const __grid_constant__ HalfProduct p) {      \
    product<T, BM, BN, ROW, WM, WN, ST, G, ACT>(p);                                                                               \
  }
#define MMA_OF(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, name, T)                                                                    \
  MMA_AS(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, name, T, ACT_NONE)                                                                \
  MMA_AS(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, name##_gelu, T, ACT_GELU)                                                         \
  MMA_AS(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, name##_act, T, ANY)
#define MMA(size, BM, BN, ROW, WM, WN, ST, G, OCCUPANCY)                                                                          \
  MMA_OF(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, f16_##size, __half)                                                               \
  MMA_OF(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, bf16_##size, __nv_bfloat16)                                                       \
  MMA_OF(BM, BN, ROW, WM, WN, ST, G, OCCUPANCY, tf32_##size, float)
MMA(128x128, 128, 128, 64, 64, 64, 4, 1, 2)
MMA(64x64, 64, 64, 128, 32, 32, 4, 1, 3)
MMA(32x64, 32, 64, 128, 16, 32, 4, 1, 4)
MMA(32x32, 32, 32, 128, 16, 16, 6, 1, 4)
MMA(64x64_by2, 64, 64, 128, 32, 32, 4, 2, 1)
MMA(32x32_by4, 32, 32, 128, 16, 16, 6, 4, 1)
