// Products of 16-bit floats by mma.sync: for Ampere and newer, and for few rows on every device.
#include "half.cuh"

// A block has BM × BN results, its warps WM × WN each; ST stages of BK of the inner axis are on their way.
template <class T, int BM, int BN, int BK, int WM, int WN, int ST, int ACT> DI void product(const HalfProduct& p) {
  extern __shared__ __align__(128) char sm[];
  constexpr int THREADS = BM / WM * (BN / WN) * 32, SA = BM * BK * 2, SB = BK * BN * 2;
  constexpr int CA = BK / 8, CB = BN / 8; // 16-byte chunks of a row
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  const uint32_t base = shared_at(sm);
  const T *A = (const T*)p.a, *B = (const T*)p.b;
  // Chunks are turned by their row, so that ldmatrix meets no bank twice.
  auto turn_a = [](int r, int c) { return CA == 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3); };
  auto turn_b = [](int r, int c) { return CB >= 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3); };
  auto load = [&](int s, int k) {
    uint32_t a = base + s * (SA + SB), b = a + SA;
#pragma unroll
    for (int i = 0; i < BM * CA / THREADS; i++) {
      int v = i * THREADS + t, r = v / CA, c = v % CA;
      bool there = m0 + r < p.m && k + c * 8 < p.k;
      copy16(a + r * BK * 2 + turn_a(r, c) * 16, there ? A + (m0 + r) * p.arow + k + c * 8 : A, there);
    }
#pragma unroll
    for (int i = 0; i < BK * CB / THREADS; i++) {
      int v = i * THREADS + t, r = v / CB, c = v % CB;
      bool there = k + r < p.k && n0 + c * 8 < p.n;
      copy16(b + r * BN * 2 + turn_b(r, c) * 16, there ? B + (i64)(k + r) * p.n + n0 + c * 8 : B, there);
    }
  };
  float acc[WM / 16][WN / 8][4] = {};
  const int steps = (p.k + BK - 1) / BK;
#pragma unroll
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load(s, s * BK);
    commit();
  }
  for (int i = 0; i < steps; i++) {
    wait_copies<ST - 2>();
    __syncthreads();
    if (i + ST - 1 < steps) load((i + ST - 1) % ST, (i + ST - 1) * BK);
    commit();
    uint32_t a = base + i % ST * (SA + SB), b = a + SA;
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
      for (int x = 0; x < WM / 16; x++) {
        int r = wm + x * 16 + (lane & 15), c = kk / 8 + (lane >> 4);
        matrices(fa[x], a + r * BK * 2 + turn_a(r, c) * 16);
      }
#pragma unroll
      for (int y = 0; y < WN / 16; y++) {
        int r = kk + (lane & 15), c = (wn + y * 16) / 8 + (lane >> 4);
        matrices_turned(fb[y], b + r * BN * 2 + turn_b(r, c) * 16);
      }
#pragma unroll
      for (int x = 0; x < WM / 16; x++)
#pragma unroll
        for (int y = 0; y < WN / 8; y++) mma<T>(acc[x][y], fa[x], fb[y / 2][y % 2 * 2], fb[y / 2][y % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int y = 0; y < WN / 8; y++) {
    int c = n0 + wn + y * 8 + lane % 4 * 2;
    if (c >= p.n) continue;
    float2 bias = p.bias ? load2<T>(p.bias, c) : make_float2(0.f, 0.f);
#pragma unroll
    for (int x = 0; x < WM / 16; x++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int r = m0 + wm + x * 16 + lane / 4 + h * 8;
        if (r >= p.m) continue;
        i64 at = (i64)r * p.n + c;
        float u = fmaf(acc[x][y][h * 2], p.alpha, bias.x), v = fmaf(acc[x][y][h * 2 + 1], p.alpha, bias.y);
        if (ACT) u = quick(ACT == ANY ? p.act : ACT, u), v = quick(ACT == ANY ? p.act : ACT, v);
        if (p.residual) {
          float2 q = load2<T>(p.residual, at);
          u += q.x, v += q.y;
        }
        *(uint32_t*)((T*)p.y + at) = pack2<T>(u, v);
      }
  }
}

#define MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, name, T, ACT)                                                                   \
  KERNEL __launch_bounds__(BM / WM * (BN / WN) * 32, OCCUPANCY) void mma_##name(const __grid_constant__ HalfProduct p) {          \
    product<T, BM, BN, BK, WM, WN, ST, ACT>(p);                                                                                   \
  }
#define MMA(BM, BN, BK, WM, WN, ST, OCCUPANCY)                                                                                    \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, f16_##BM##x##BN, __half, ACT_NONE)                                                    \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, f16_##BM##x##BN##_gelu, __half, ACT_GELU)                                             \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, f16_##BM##x##BN##_act, __half, ANY)                                                   \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, bf16_##BM##x##BN, __nv_bfloat16, ACT_NONE)                                            \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, bf16_##BM##x##BN##_gelu, __nv_bfloat16, ACT_GELU)                                     \
  MMA_AS(BM, BN, BK, WM, WN, ST, OCCUPANCY, bf16_##BM##x##BN##_act, __nv_bfloat16, ANY)
MMA(128, 128, 32, 64, 64, 4, 2)
MMA(64, 64, 64, 32, 32, 4, 3)
MMA(32, 64, 64, 16, 32, 4, 4)
MMA(32, 32, 64, 16, 16, 6, 4)
