// Products of float32 on the ordinary cores with copies that no register takes part in: for Ampere and newer. b is row-major, of
// whole fours, aligned; rows of a have their elements together.
#include "product.cuh"
#include "half.cuh"

// A block computes BM × BN results, BK of the inner axis at a time, of which ST are on their way; a thread has TM × TN of them.
// Stages hold columns of a and rows of b, so that each is read by fours.
template <int BM, int BN, int BK, int TM, int TN, int ST> DI void product(const Product& p) {
  constexpr int THREADS = BM / TM * (BN / TN), PITCH = BM + 8, STAGE = BK * (PITCH + BN);
  extern __shared__ __align__(16) float stages[];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  // A warp has 4 × 8 threads' results: what it reads of a and b at once is in different banks.
  constexpr int ACROSS = BN / TN / 8;
  const int ty = warp / ACROSS * 4 + lane / 8, tx = warp % ACROSS * 8 + lane % 8;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const i64 batch = blockIdx.z / p.splits;
  const int split = blockIdx.z % p.splits;
  const float *a = (const float*)p.a, *b = (const float*)p.b;
  i64 rest = batch;
  for (int i = p.lead - 1; i >= 0; i--) {
    i64 c = rest % p.lead_size[i];
    rest /= p.lead_size[i];
    a += c * p.alead[i], b += c * p.blead[i];
  }
  const int k0 = split * p.part, k1 = min(p.k, k0 + p.part), steps = (k1 - k0 + BK - 1) / BK;
  // Where a thread's next elements of a and b are, and which of its rows and columns exist. Four threads read 16 bytes of a row of a.
  constexpr int AROWS = THREADS / 4, BROWS = THREADS / (BN / 4);
  const float *next_a = a + (i64)(row0 + t / 4) * p.arow + k0 + t % 4, *next_b = b + (i64)(k0 + t / (BN / 4)) * p.brow + col0 + t % (BN / 4) * 4;
  const i64 rows_a = AROWS * p.arow, rows_b = BROWS * p.brow;
  bool there_a[BM / AROWS], there_b = col0 + t % (BN / 4) * 4 < p.n;
#pragma unroll
  for (int i = 0; i < BM / AROWS; i++) there_a[i] = row0 + i * AROWS + t / 4 < p.m;
  // copy_step brings a step; whole: all of it is within the split.
  auto copy_step = [&](int s, int k, bool whole) {
    uint32_t as = shared_at(stages + s * STAGE) + 4 * (t % 4 * PITCH + t / 4), bs = shared_at(stages + s * STAGE + BK * PITCH) + 16 * t;
#pragma unroll
    for (int i = 0; i < BM / AROWS; i++)
#pragma unroll
      for (int j = 0; j < BK / 4; j++)
        copy4(as + 4 * (j * 4 * PITCH + i * AROWS), next_a + i * rows_a + j * 4, there_a[i] && (whole || k + j * 4 + t % 4 < k1));
#pragma unroll
    for (int i = 0; i < BK / BROWS; i++)
      copy16(bs + 16 * i * THREADS, next_b + i * rows_b, there_b && (whole || k + i * BROWS + t / (BN / 4) < k1));
  };
  auto load = [&](int s, int k) {
    if (k + BK <= k1) copy_step(s, k, true);
    else copy_step(s, k, false);
    next_a += BK, next_b += BK * p.brow;
  };
#pragma unroll
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load(s, k0 + s * BK);
    commit();
  }
  constexpr int RUNS = TM / 4, COLS = TN / 4;
  float acc[TM][TN] = {};
  for (int i = 0; i < steps; i++) {
    wait_copies<ST - 2>();
    __syncthreads();
    if (i + ST - 1 < steps) load((i + ST - 1) % ST, k0 + (i + ST - 1) * BK);
    commit();
    const float *as = stages + i % ST * STAGE, *bs = as + BK * PITCH;
#pragma unroll
    for (int c = 0; c < BK; c++) {
      float x[TM], y[TN];
#pragma unroll
      for (int j = 0; j < RUNS; j++) *(float4*)&x[4 * j] = *(const float4*)&as[c * PITCH + j * (BM / RUNS) + ty * 4];
#pragma unroll
      for (int j = 0; j < COLS; j++) *(float4*)&y[4 * j] = *(const float4*)&bs[c * BN + j * (BN / COLS) + tx * 4];
#pragma unroll
      for (int m = 0; m < TM; m++)
#pragma unroll
        for (int n = 0; n < TN; n++) acc[m][n] = fmaf(x[m], y[n], acc[m][n]);
    }
  }
  auto row = [&](int i) { return row0 + i / 4 * (BM / RUNS) + ty * 4 + i % 4; };
  auto col = [&](int j) { return col0 + j / 4 * (BN / COLS) + tx * 4 + j % 4; };
  if (p.splits == 1) complete<float, TM, TN, THREADS>(p, acc, stages, col);
  float* y = p.splits == 1 ? (float*)p.y + batch * p.m * p.n : p.parts + (batch * p.splits + split) * p.m * p.n;
  const float* residual = p.splits == 1 && p.residual ? (const float*)p.residual + batch * p.m * p.n : nullptr;
#pragma unroll
  for (int i = 0; i < TM; i++) {
    if (row(i) >= p.m) continue;
    float4 w[COLS];
#pragma unroll
    for (int j = 0; j < COLS; j++)
      if (residual && col(4 * j) < p.n) w[j] = *(const float4*)&residual[(i64)row(i) * p.n + col(4 * j)];
#pragma unroll
    for (int j = 0; j < COLS; j++) {
      if (col(4 * j) >= p.n) continue;
      float4 v = *(const float4*)&acc[i][4 * j];
      if (residual) v.x += w[j].x, v.y += w[j].y, v.z += w[j].z, v.w += w[j].w;
      *(float4*)&y[(i64)row(i) * p.n + col(4 * j)] = v;
    }
  }
}

#define SIMT(BM, BN, BK, TM, TN, ST, OCCUPANCY)                                                                                        \
  KERNEL __launch_bounds__(BM / TM * (BN / TN), OCCUPANCY) void simt_f32_##BM##x##BN(const __grid_constant__ Product p) {              \
    product<BM, BN, BK, TM, TN, ST>(p);                                                                                                \
  }
SIMT(128, 128, 16, 8, 16, 3, 2)
SIMT(64, 128, 16, 8, 8, 3, 3)
SIMT(64, 64, 16, 8, 4, 4, 4)
SIMT(32, 64, 16, 4, 4, 4, 4)
