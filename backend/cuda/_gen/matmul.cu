// Products in float32 arithmetic on the ordinary cores: exact to float32's rounding of each step, of operands of any strides
// and of float32 or 16-bit floats.
#include "product.cuh"

// A block computes BM × BN results, BK of the inner axis at a time, each of its 256 threads TM × TN of them. VECTOR: a is
// row-major and b too, both of whole fours, aligned.
template <class T, int BM, int BN, int BK, int TM, int TN, bool VECTOR> DI void product(const Product& p) {
  constexpr int THREADS = BM / TM * (BN / TN), PITCH = BM + 4;
  __shared__ __align__(16) float as[2][BK][PITCH], bs[2][BK][BN];
  const int t = threadIdx.x, tx = t % (BN / TN), ty = t / (BN / TN);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const i64 batch = blockIdx.z / p.splits;
  const int split = blockIdx.z % p.splits;
  const T *a = (const T*)p.a, *b = (const T*)p.b;
  i64 rest = batch;
  for (int i = p.lead - 1; i >= 0; i--) {
    i64 c = rest % p.lead_size[i];
    rest /= p.lead_size[i];
    a += c * p.alead[i], b += c * p.blead[i];
  }
  const int k0 = split * p.part, k1 = min(p.k, k0 + p.part);
  constexpr int AV = BM * BK / 4 / THREADS, BV = BN * BK / 4 / THREADS;
  float ra[VECTOR ? AV : 4 * AV][VECTOR ? 4 : 1], rb[VECTOR ? BV : 4 * BV][VECTOR ? 4 : 1];
  auto fetch = [&](int k) {
    if constexpr (VECTOR) {
#pragma unroll
      for (int i = 0; i < AV; i++) {
        int v = i * THREADS + t, r = v / (BK / 4), c = v % (BK / 4) * 4;
        ra[i][0] = ra[i][1] = ra[i][2] = ra[i][3] = 0.f;
        if (row0 + r < p.m && k + c < k1) load4(ra[i], a + (row0 + r) * p.arow + k + c);
      }
#pragma unroll
      for (int i = 0; i < BV; i++) {
        int v = i * THREADS + t, r = v / (BN / 4), c = v % (BN / 4) * 4;
        rb[i][0] = rb[i][1] = rb[i][2] = rb[i][3] = 0.f;
        if (k + r < k1 && col0 + c < p.n) load4(rb[i], b + (k + r) * p.brow + col0 + c);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4 * AV; i++) {
        int v = i * THREADS + t, r = p.acol == 1 ? v / BK : v % BM, c = p.acol == 1 ? v % BK : v / BM;
        ra[i][0] = row0 + r < p.m && k + c < k1 ? to_float(a[(row0 + r) * p.arow + (k + c) * p.acol]) : 0.f;
      }
#pragma unroll
      for (int i = 0; i < 4 * BV; i++) {
        int v = i * THREADS + t, r = p.bcol == 1 ? v / BN : v % BK, c = p.bcol == 1 ? v % BN : v / BK;
        rb[i][0] = k + r < k1 && col0 + c < p.n ? to_float(b[(k + r) * p.brow + (col0 + c) * p.bcol]) : 0.f;
      }
    }
  };
  auto put = [&](int s) {
    if constexpr (VECTOR) {
#pragma unroll
      for (int i = 0; i < AV; i++) {
        int v = i * THREADS + t, r = v / (BK / 4), c = v % (BK / 4) * 4;
#pragma unroll
        for (int e = 0; e < 4; e++) as[s][c + e][r] = ra[i][e];
      }
#pragma unroll
      for (int i = 0; i < BV; i++) {
        int v = i * THREADS + t, r = v / (BN / 4), c = v % (BN / 4) * 4;
        *(float4*)&bs[s][r][c] = make_float4(rb[i][0], rb[i][1], rb[i][2], rb[i][3]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4 * AV; i++) {
        int v = i * THREADS + t, r = p.acol == 1 ? v / BK : v % BM, c = p.acol == 1 ? v % BK : v / BM;
        as[s][c][r] = ra[i][0];
      }
#pragma unroll
      for (int i = 0; i < 4 * BV; i++) {
        int v = i * THREADS + t, r = p.bcol == 1 ? v / BN : v % BK, c = p.bcol == 1 ? v % BN : v / BK;
        bs[s][r][c] = rb[i][0];
      }
    }
  };
  // A thread's rows and columns are in runs of four, BM/(TM/4) and BN/(TN/4) apart, so that a warp reads without conflicts.
  constexpr int RUNS = TM / 4, COLS = TN / 4;
  float acc[TM][TN] = {};
  fetch(k0);
  put(0);
  __syncthreads();
  int s = 0;
  for (int k = k0; k < k1; k += BK, s ^= 1) {
    if (k + BK < k1) fetch(k + BK);
#pragma unroll
    for (int c = 0; c < BK; c++) {
      float x[TM], y[TN];
#pragma unroll
      for (int i = 0; i < RUNS; i++) *(float4*)&x[4 * i] = *(const float4*)&as[s][c][i * (BM / RUNS) + ty * 4];
#pragma unroll
      for (int i = 0; i < COLS; i++) *(float4*)&y[4 * i] = *(const float4*)&bs[s][c][i * (BN / COLS) + tx * 4];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
    }
    if (k + BK < k1) put(s ^ 1);
    __syncthreads();
  }
  auto row = [&](int i) { return row0 + i / 4 * (BM / RUNS) + ty * 4 + i % 4; };
  auto col = [&](int j) { return col0 + j / 4 * (BN / COLS) + tx * 4 + j % 4; };
  if (p.splits == 1) complete<T, TM, TN, THREADS>(p, acc, &as[0][0][0], col);
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      if (row(i) >= p.m || col(j) >= p.n) continue;
      if (p.splits > 1) {
        p.parts[((batch * p.splits + split) * p.m + row(i)) * p.n + col(j)] = acc[i][j];
        continue;
      }
      i64 at = (batch * p.m + row(i)) * p.n + col(j);
      ((T*)p.y)[at] = from_float<T>(acc[i][j] + (p.residual ? to_float(((const T*)p.residual)[at]) : 0.f));
    }
}

#define PRODUCT(name, T, BM, BN, BK, TM, TN, V) \
  KERNEL __launch_bounds__(BM / TM * (BN / TN), 2) void name(const __grid_constant__ Product p) { product<T, BM, BN, BK, TM, TN, V>(p); }
PRODUCT(product_f32_128x128, float, 128, 128, 16, 8, 8, true)
PRODUCT(product_f32_64x64, float, 64, 64, 16, 4, 4, true)
PRODUCT(product_f32_32x64, float, 32, 64, 16, 4, 4, true)
PRODUCT(product_f32_any, float, 64, 64, 16, 4, 4, false)
PRODUCT(product_f16_any, __half, 64, 64, 16, 4, 4, false)
PRODUCT(product_bf16_any, __nv_bfloat16, 64, 64, 16, 4, 4, false)

// sum_parts adds the splits of a product up, in their order, and finishes.
template <class T> DI void sum_parts(const Product& p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < (i64)p.m * p.n; n += gridDim.x * 256ll) {
    float v = 0.f;
    for (int s = 0; s < p.splits; s++) v += p.parts[(i64)s * p.m * p.n + n];
    finish<T>(p, 0, n / p.n, n % p.n, v);
  }
}
KERNEL __launch_bounds__(256) void sum_parts_f32(const __grid_constant__ Product p) { sum_parts<float>(p); }
KERNEL __launch_bounds__(256) void sum_parts_f16(const __grid_constant__ Product p) { sum_parts<__half>(p); }
KERNEL __launch_bounds__(256) void sum_parts_bf16(const __grid_constant__ Product p) { sum_parts<__nv_bfloat16>(p); }
