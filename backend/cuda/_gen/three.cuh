// Products of float32 on matrix units, to float32's precision: each factor is the sum of two tf32, the nearest and what is left, and
// three products of these are added up. What they leave out is below 2⁻²² of a product.
#pragma once
#include "half.cuh"
#include "product.cuh"
#include "windows.cuh"

// The operands of a product whose left one is a matrix or an image. b is row-major, of whole fours, aligned.
struct MatrixProduct {
  Product p;
  int fixed, pad; // b is weights, which no kernel writes
};
struct WindowProduct {
  Product p;
  int fixed;
  WindowAct act;
  Window w;
};

DI void halve(uint32_t x, uint32_t& high, uint32_t& low) {
  high = (x + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(__uint_as_float(x) - __uint_as_float(high)); // of infinities and NaNs a NaN
}

DI bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

// rows_of are the rows that a thread copies, start is where the left operand starts, and step and position say where results are: a group of a
// convolution has some of the columns.
template <int N, class P> DI MatrixRows<float> rows_of(const P& q, int first, int step) { return {nullptr, q.p.arow, q.p.m, first, step}; }
template <int N> DI WindowRows<float, N> rows_of(const WindowProduct& q, int first, int step) { return WindowRows<float, N>(q.w, q.p.m, first, step); }
template <class P> DI i64 pitch_of(const P& q) { return q.p.n; }
DI i64 pitch_of(const WindowProduct& q) { return q.p.brow; }
template <class P> DI i64 matrix_of(const P& q) { return (i64)q.p.m * q.p.n; }
DI i64 matrix_of(const WindowProduct& q) { return q.p.n; }
template <class P> DI WindowAct act_of(const P& q) { return {q.p.act, 0.f, 0.f}; }
DI WindowAct act_of(const WindowProduct& q) { return q.act; }
template <class P> DI int first_column(const P&, int) { return 0; }
DI int first_column(const WindowProduct& q, int group) { return group * q.p.n; }

// A thread's part of the right operand: ask begins to bring a step to shared memory, put ends it.
template <class P, int BK, int BN, int THREADS, int PITCH> struct Columns {
  const P& q;
  const float* b;
  int t, n0, k1;
  DI void ask(uint32_t to, int k) {
#pragma unroll
    for (int i = 0; i < BK * BN / 4 / THREADS; i++) {
      int v = i * THREADS + t, r = v / (BN / 4), c = v % (BN / 4) * 4;
      bool there = k + r < k1 && n0 + c < q.p.n;
      copy16(to + 4 * (r * PITCH + c), there ? b + (i64)(k + r) * q.p.brow + n0 + c : b, there);
    }
  }
  DI void put(float*) {}
  DI float value(int k, int col) const { return b[(i64)k * q.p.brow + col]; }
};
// exactly is the sum where a factor or a sum of parts is infinite or no number, which a NaN in the sum of parts shows.
template <class P, class C> DI float exactly(const P& q, const float* a, C& columns, int row, int col, int k0, int k1) {
  auto rows = rows_of<1>(q, row, 0);
  float sum = 0.f;
  for (int k = k0; k < k1; k++) {
    bool there;
    rows.seek(a, k);
    const float* x = rows.get(0, there);
    sum = fmaf(there ? *x : 0.f, columns.value(k, col), sum);
  }
  return sum;
}

// apply is activate_sums with the activations of convolutions.
template <int TM, int TN, int THREADS> DI void apply(const WindowAct& act, float (&sums)[TM][TN], float* mine) {
#pragma unroll
  for (int i = 0; i < TM; i++) {
#pragma unroll
    for (int j = 0; j < TN; j++) mine[j * THREADS] = sums[i][j];
#pragma unroll 1
    for (int j = 0; j < TN; j++) mine[j * THREADS] = act(mine[j * THREADS]);
#pragma unroll
    for (int j = 0; j < TN; j++) sums[i][j] = mine[j * THREADS];
  }
}

// A block has BM × BN results, a warp WM × WN of them; 32 of the inner axis are a step, and ST steps are on their way. G groups of warps
// share the steps, as in mma.cuh. The units cut sums off instead of rounding them, so that each step's are added to the others by
// the ordinary cores.
template <class P, int BM, int BN, int WM, int WN, int ST, int G, int PARTS> DI void product(const P& q) {
  extern __shared__ __align__(128) char sm[];
  const Product& p = q.p;
  constexpr int BK = 32, ROW = 4 * BK, CHUNKS = ROW / 16, THREADS = BM / WM * (BN / WN) * 32, PITCH = BN + 8;
  constexpr int SA = BM * ROW, STAGE = SA + 4 * BK * PITCH, TM = WM / 8, TN = WN / 4;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS, warp = t / 32, lane = t % 32;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  const uint32_t base = shared_at(sm) + group * ST * STAGE;
  const i64 batch = blockIdx.z / p.splits;
  const int split = blockIdx.z % p.splits, k0 = split * p.part, k1 = min(p.k, k0 + p.part);
  const float *a = (const float*)p.a, *b = (const float*)p.b;
  i64 rest = batch;
  for (int i = p.lead - 1; i >= 0; i--) {
    i64 c = rest % p.lead_size[i];
    rest /= p.lead_size[i];
    a += c * p.alead[i], b += c * p.blead[i];
  }
  auto rows = rows_of<BM * CHUNKS / THREADS>(q, m0 + t / CHUNKS, THREADS / CHUNKS);
  auto load_a = [&](int s, int k) {
    const int c = t % CHUNKS, first = t / CHUNKS;
    auto to = [&](int i) {
      int r = first + i * (THREADS / CHUNKS);
      return base + s * STAGE + r * ROW + (c ^ (r & 7)) * 16;
    };
    k += c * 4;
    if (rows.whole()) {
      rows.seek(a, k);
#pragma unroll
      for (int i = 0; i < BM * CHUNKS / THREADS; i++) {
        bool there;
        const float* from = rows.get(i, there);
        there = there && k < k1;
        copy16(to(i), there ? from : a, there);
      }
      return;
    }
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
      rows.seek(a, k + e);
#pragma unroll
      for (int i = 0; i < BM * CHUNKS / THREADS; i++) {
        bool there;
        const float* from = rows.get(i, there);
        there = there && k + e < k1;
        copy4(to(i) + 4 * e, there ? from : a, there);
      }
    }
  };
  Columns<P, BK, BN, THREADS, PITCH> columns{q, b, t, n0, k1};
  auto stage = [&](int s) { return base + s * STAGE + SA; };
  auto stored = [&](int s) { return (float*)(sm + (group * ST + s) * STAGE + SA); };
  const int steps = (k1 - k0 + BK * G - 1) / (BK * G); // of each group; what is beyond the end is zeros
  auto at = [&](int i) { return k0 + (i * G + group) * BK; };
  start_next();
  if (!q.fixed) wait_for_last();
#pragma unroll
  for (int s = 0; s < ST - 1; s++)
    if (s < steps) columns.ask(stage(s), at(s)), columns.put(stored(s));
  if (q.fixed) wait_for_last();
#pragma unroll
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load_a(s, at(s));
    commit();
  }
  float sums[TM][TN] = {};
  for (int i = 0; i < steps; i++) {
    wait_copies<ST - 2>();
    __syncthreads();
    const int next = (i + ST - 1) % ST;
    const bool more = i + ST - 1 < steps;
    if (more) load_a(next, at(i + ST - 1)), columns.ask(stage(next), at(i + ST - 1));
    commit();
    const uint32_t as = base + i % ST * STAGE;
    const uint32_t* bs = (const uint32_t*)stored(i % ST) + lane % 4 * PITCH + wn + lane / 4;
    float part[TM / 2][TN / 2][4] = {};
#pragma unroll
    for (int kk = 0; kk < BK / 8; kk++) {
      uint32_t ah[TM / 2][4], al[TM / 2][4], bh[TN / 2][2], bl[TN / 2][2];
#pragma unroll
      for (int x = 0; x < TM / 2; x++) {
        int r = wm + x * 16 + (lane & 15), c = kk * 2 + (lane >> 4);
        matrices(al[x], as + r * ROW + (c ^ (r & 7)) * 16);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          if (PARTS == 1) ah[x][e] = round_tf32(al[x][e]);
          else halve(al[x][e], ah[x][e], al[x][e]);
        }
      }
#pragma unroll
      for (int y = 0; y < TN / 2; y++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          uint32_t v = bs[(kk * 8 + e * 4) * PITCH + y * 8];
          if (PARTS == 1) bh[y][e] = round_tf32(v);
          else halve(v, bh[y][e], bl[y][e]);
        }
      if (PARTS == 3) {
#pragma unroll
        for (int x = 0; x < TM / 2; x++)
#pragma unroll
          for (int y = 0; y < TN / 2; y++) mma<float>(part[x][y], al[x], bh[y][0], bh[y][1]);
#pragma unroll
        for (int x = 0; x < TM / 2; x++)
#pragma unroll
          for (int y = 0; y < TN / 2; y++) mma<float>(part[x][y], ah[x], bl[y][0], bl[y][1]);
      }
#pragma unroll
      for (int x = 0; x < TM / 2; x++)
#pragma unroll
        for (int y = 0; y < TN / 2; y++) mma<float>(part[x][y], ah[x], bh[y][0], bh[y][1]);
    }
#pragma unroll
    for (int x = 0; x < TM / 2; x++)
#pragma unroll
      for (int y = 0; y < TN / 2; y++)
#pragma unroll
        for (int e = 0; e < 4; e++) sums[2 * x + e / 2][2 * y + e % 2] += part[x][y][e];
    if (more) columns.put(stored(next));
  }
  wait_copies<0>();
  __syncthreads();
  if (G > 1) {
    float* others = (float*)sm + t;
    if (group > 0) {
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) others[(((group - 1) * TM + i) * TN + j) * THREADS] = sums[i][j];
    }
    __syncthreads();
    if (group > 0) return;
#pragma unroll
    for (int g = 0; g < G - 1; g++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sums[i][j] += others[((g * TM + i) * TN + j) * THREADS];
  }
  auto row = [&](int i) { return m0 + wm + i / 2 * 16 + i % 2 * 8 + lane / 4; };
  auto col = [&](int j) { return n0 + wn + j / 2 * 8 + lane % 4 * 2 + j % 2; };
  float* slots = (float*)sm + (G > 1 ? (G - 1) * TM * TN * THREADS : 0) + t;
  if (PARTS == 3) {
    float odd = 0.f;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) odd = fmaf(sums[i][j], 0.f, odd);
    if (odd != 0.f) {
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) slots[(i * TN + j) * THREADS] = sums[i][j];
#pragma unroll 1
      for (int n = 0; n < TM * TN; n++) {
        int r = row(n / TN), c = col(n % TN);
        if (r < p.m && c < p.n && !is_finite(slots[n * THREADS])) slots[n * THREADS] = exactly(q, a, columns, r, c, k0, k1);
      }
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sums[i][j] = slots[(i * TN + j) * THREADS];
    }
  }
  const bool whole = p.splits == 1;
  const i64 pitch = whole ? pitch_of(q) : p.n, first = whole ? batch * matrix_of(q) : (batch * p.splits + split) * p.m * p.n;
  if (whole) {
    const float* bias = p.bias ? (const float*)p.bias + first_column(q, (int)batch) : nullptr;
#pragma unroll
    for (int j = 0; j < TN; j++) {
      float add = bias && col(j) < p.n ? bias[col(j)] : 0.f;
#pragma unroll
      for (int i = 0; i < TM; i++) sums[i][j] = sums[i][j] * p.alpha + add;
    }
    if (p.act != ACT_NONE) apply<TM, TN, THREADS>(act_of(q), sums, slots);
  }
  float* y = (whole ? (float*)p.y : p.parts) + first;
  const float* residual = whole && p.residual ? (const float*)p.residual + first : nullptr;
#pragma unroll
  for (int i = 0; i < TM; i++) {
    if (row(i) >= p.m) continue;
    float2 w[TN / 2];
#pragma unroll
    for (int j = 0; j < TN / 2; j++)
      if (residual && col(2 * j) < p.n) w[j] = *(const float2*)&residual[row(i) * pitch + col(2 * j)];
#pragma unroll
    for (int j = 0; j < TN / 2; j++) {
      if (col(2 * j) >= p.n) continue;
      float2 v = make_float2(sums[i][2 * j], sums[i][2 * j + 1]);
      if (residual) v.x += w[j].x, v.y += w[j].y;
      *(float2*)&y[row(i) * pitch + col(2 * j)] = v;
    }
  }
}
