// Products of 8-bit values by mma.sync, in exact int32: for Ampere and newer. b is a constant matrix that was arranged: a row of signed
// values for each column, 128 less than unsigned ones, then for each column the sum of its values less k times its zero point, then
// the zero points. Rows of both operands are whole chunks of 16 bytes.
#include "quant.cuh"
#include "half.cuh"

// A block has BM × BN results, a warp WM × WN of them; 128 of the inner axis are a step, and ST steps are on their way. With p and q the
// zero points of a and of a column of b, the sum of (a−p)·(b−q) is that of a·b, less p times the column's sum of b−q, less q
// times the row's sum of a.
template <int BM, int BN, int WM, int WN, int ST, bool SIGNED> DI void product(const QProduct& p) {
  extern __shared__ __align__(128) char sm[];
  __shared__ int row_sums[BM];
  constexpr int ROW = 128, CHUNKS = ROW / 16, THREADS = BM / WM * (BN / WN) * 32, SA = BM * ROW, SB = BN * ROW, PITCH = BN + 4;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  const uint32_t base = shared_at(sm);
  const char *A = (const char*)p.a, *B = (const char*)p.b;
  auto swizzle = [](int r, int c) { return c ^ (r & 7); };
  auto load = [&](uint32_t to, const char* from, int r0, int rows, int count, int k) {
    for (int v = t; v < count * CHUNKS; v += THREADS) {
      int r = v / CHUNKS, c = v % CHUNKS;
      bool there = r0 + r < rows && k + c * 16 < p.k;
      copy16(to + r * ROW + swizzle(r, c) * 16, there ? from + (i64)(r0 + r) * p.k + k + c * 16 : from, there);
    }
  };
  const int steps = (p.k + ROW - 1) / ROW;
  auto load_step = [&](int i) {
    uint32_t to = base + i % ST * (SA + SB);
    load(to, A, m0, p.m, BM, i * ROW), load(to + SA, B, n0, p.n, BN, i * ROW);
  };
  int acc[WM / 16][WN / 8][4] = {}, ones[WM / 16][4] = {};
#pragma unroll
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load_step(s);
    commit();
  }
  for (int i = 0; i < steps; i++) {
    wait_copies<ST - 2>();
    __syncthreads();
    if (i + ST - 1 < steps) load_step(i + ST - 1);
    commit();
    uint32_t a = base + i % ST * (SA + SB), b = a + SA;
#pragma unroll
    for (int kk = 0; kk < CHUNKS; kk += 2) {
      uint32_t fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
      for (int x = 0; x < WM / 16; x++) {
        int r = wm + x * 16 + (lane & 15), c = kk + (lane >> 4);
        matrices(fa[x], a + r * ROW + swizzle(r, c) * 16);
      }
#pragma unroll
      for (int y = 0; y < WN / 16; y++) {
        int r = wn + y * 16 + (lane & 7) + (lane >> 4) * 8, c = kk + (lane >> 3 & 1);
        matrices(fb[y], b + r * ROW + swizzle(r, c) * 16);
      }
#pragma unroll
      for (int x = 0; x < WM / 16; x++)
#pragma unroll
        for (int y = 0; y < WN / 8; y++) mma8<SIGNED>(acc[x][y], fa[x], fb[y / 2][y % 2 * 2], fb[y / 2][y % 2 * 2 + 1]);
      if (!p.plain) {
#pragma unroll
        for (int x = 0; x < WM / 16; x++) mma8<SIGNED>(ones[x], fa[x], 0x01010101u, 0x01010101u);
      }
    }
  }
  wait_copies<0>();
  __syncthreads();
  // The sums go by way of shared memory: rows are finished in one piece, and by one copy of the code.
  int* tile = (int*)sm;
#pragma unroll
  for (int x = 0; x < WM / 16; x++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int r = wm + x * 16 + lane / 4 + h * 8;
      if (wn == 0 && lane % 4 == 0) row_sums[r] = ones[x][h * 2];
#pragma unroll
      for (int y = 0; y < WN / 8; y++) {
        int c = wn + y * 8 + lane % 4 * 2;
        *(int2*)&tile[r * PITCH + c] = make_int2(acc[x][y][h * 2], acc[x][y][h * 2 + 1]);
      }
    }
  __syncthreads();
  const int zero = p.by_row ? 0 : zero_of(p, SIGNED, 0); // of all rows
  const int *column_sums = (const int*)(B + (i64)p.n * p.k), *zeros = column_sums + p.n;
#pragma unroll 1
  for (int v = t; v < BM * BN; v += THREADS) {
    int r = v / BN, c = v % BN, col = n0 + c;
    if (m0 + r >= p.m || col >= p.n) continue;
    int sum = tile[r * PITCH + c] - (p.by_row ? zero_of(p, SIGNED, m0 + r) : zero) * column_sums[col];
    if (!p.plain) sum -= row_sums[r] * zeros[col];
    finish(p, sum, m0 + r, col);
  }
}

#define QMMA(BM, BN, WM, WN, ST, OCCUPANCY)                                                                                                  \
  KERNEL __launch_bounds__(BM / WM * (BN / WN) * 32, OCCUPANCY) void qmma_u8_##BM##x##BN(const __grid_constant__ QProduct p) {               \
    product<BM, BN, WM, WN, ST, false>(p);                                                                                                   \
  }                                                                                                                                          \
  KERNEL __launch_bounds__(BM / WM * (BN / WN) * 32, OCCUPANCY) void qmma_i8_##BM##x##BN(const __grid_constant__ QProduct p) {               \
    product<BM, BN, WM, WN, ST, true>(p);                                                                                                    \
  }
QMMA(128, 128, 64, 32, 3, 2)
QMMA(64, 64, 32, 32, 4, 3)
QMMA(32, 32, 16, 16, 5, 4)
