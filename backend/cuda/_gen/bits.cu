// Products by weights of a few bits on matrix units, for Ampere and newer. The units multiply by the packed values less a zero point:
// whole numbers, which 16-bit floats hold exactly. A float32 of the left operand is the sum of three bfloat16, which makes the
// products exact too. Scales follow the sums over a block.
#include "half.cuh"
#include "product.cuh"

// A matrix of values of a few bits, packed as in quant.cu: p.b has the values of a column of the result in a row of row bytes, in
// blocks of a multiple of 16. Rows of a are whole chunks of 16 bytes.
struct BitsProduct {
  Product p;
  void *scales, *zeros; // scales of a's type; zeros packed, of a's type, or null
  i64 row, zero_row;    // bytes
  int fixed, bits, block, blocks, packed, pad;
};

// Units is the type that the units take instead of T. Its number FIRST has the bits ONE, and the next FIRST − 1 numbers those that follow.
template <class T> struct Units {
  typedef __nv_bfloat16 Half;
  static const uint32_t ONE = 0x4300, FIRST = 128;
};
template <> struct Units<__half> {
  typedef __half Half;
  static const uint32_t ONE = 0x6400, FIRST = 1024;
};
template <class Pair> DI uint32_t minus2(uint32_t x, uint32_t y) {
  Pair z = __hsub2(*(Pair*)&x, *(Pair*)&y);
  return *(uint32_t*)&z;
}
DI uint32_t minus(__half, uint32_t x, uint32_t y) { return minus2<__half2>(x, y); }
DI uint32_t minus(__nv_bfloat16, uint32_t x, uint32_t y) { return minus2<__nv_bfloat162>(x, y); }

// Values makes 16-bit floats of packed values less a zero point.
template <class T> struct Values {
  typedef typename Units<T>::Half Half;
  static const uint32_t BOTH = 0x00010001, FIRST = Units<T>::ONE * BOTH;
  static DI bool wide(int bits) { return 1 << bits > Units<T>::FIRST; } // bit 7 is beyond FIRST − 1
  static DI uint32_t zero(int bits, int x) { return wide(bits) ? pack2<Half>((float)x, (float)x) : FIRST + BOTH * x; }
  static DI uint32_t pair(int bits, uint32_t v, uint32_t zero) {
    v &= BOTH * ((1 << bits) - 1);
    if (!wide(bits)) return minus(Half(), v | FIRST, zero);
    uint32_t low = minus(Half(), v & BOTH * 0x7f | FIRST, FIRST);
    return minus(Half(), minus(Half(), low, (v & BOTH * 0x80) * 0x186), zero); // −128 is 0xc300
  }
  // four makes the first and the third of four values, and the others.
  static DI void four(int bits, const char* at, uint32_t zero, uint32_t& even, uint32_t& odd) {
    uint32_t v;
    if (bits == 8) v = *(const uint32_t*)at;
    else if (bits == 4) v = *(const uint16_t*)at, v |= v << 8;
    else v = *(const uint8_t*)at, v |= v << 12;
    even = pair(bits, v, zero), odd = pair(bits, v >> bits, zero);
  }
};

// split makes parts of four floats: of the first and the third, and of the others. Three of them leave nothing.
template <int PARTS> DI void split(const float* at, uint2 (&parts)[PARTS]) {
  float4 f = *(const float4*)at;
  float x[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
  for (int i = 0; i < PARTS; i++) {
    uint32_t u[4];
#pragma unroll
    for (int e = 0; e < 4; e++) u[e] = __float_as_uint(x[e]), x[e] -= __uint_as_float(u[e] & 0xffff0000u);
    parts[i] = make_uint2(__byte_perm(u[0], u[2], 0x7632), __byte_perm(u[1], u[3], 0x7632));
  }
}
template <int PARTS, class T> DI void split(const T* at, uint2 (&parts)[PARTS]) {
  uint2 x = *(const uint2*)at;
  parts[0] = make_uint2(__byte_perm(x.x, x.y, 0x5410), __byte_perm(x.x, x.y, 0x7632));
}

// A tile is how a block of threads shares a product: it has BM × BN results, a warp WM × WN of them, where columns are the rows of the
// units' left operand. BK of the inner axis are a stage, and ST stages are on their way. G groups of warps share the stages.
template <class T_, int PARTS_, int BM_, int BN_, int WM_, int WN_, int G_> struct Tile {
  typedef T_ T;
  typedef typename Units<T>::Half Half;
  static const int PARTS = PARTS_, BM = BM_, BN = BN_, WM = WM_, WN = WN_, BK = 64, ST = 3, G = G_;
  static const int THREADS = BM / WM * (BN / WN) * 32, TR = WM / 8, TC = WN / 16;
  const BitsProduct& q;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS, warp = t / 32, lane = t % 32;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  float sums[2 * TR][2 * TC] = {};

  DI int row(int i) const { return m0 + wm + i / 2 * 8 + lane % 4 * 2 + i % 2; }
  DI int col(int j) const { return n0 + wn + j * 8 + lane / 4; }
  DI float middle() const { return 1 << (q.bits - 1); }
  DI const uint8_t* zero_at(int n, int block) const { return (const uint8_t*)q.zeros + n * q.zero_row + block * q.bits / 8; }
  template <bool USUAL> DI void add();
  DI void join();
  DI void exactly();
};

// add adds up a group's stages. Shared memory has those rows of a only that there are. USUAL is known of most weights: they have 4 bits
// in blocks of a power of two from 32 on, and no zero points or packed ones.
template <class T_, int PARTS_, int BM_, int BN_, int WM_, int WN_, int G_>
template <bool USUAL> DI void Tile<T_, PARTS_, BM_, BN_, WM_, WN_, G_>::add() {
  extern __shared__ __align__(128) char sm[];
  const Product& p = q.p;
  const int bits = USUAL ? 4 : q.bits, rows = min(BM, p.m), left = p.m - m0, shift = 31 - __clz(q.block);
  const bool each = !USUAL && q.block % 32 != 0;       // 16 of the inner axis have a scale, not 32
  const bool shifted = !USUAL && q.zeros && !q.packed; // zero points are no whole numbers
  constexpr int AROW = BK * sizeof(T), PROW = PARTS * BK * 2 + 32, PITCH = BN + 2;
  const int wrow = BK * bits / 8 + 16, slots = each ? BK / 16 : BK / 32, stage = rows * AROW + BN * wrow + slots * PITCH * 8;
  char* const parts = sm + group * (rows * PROW + ST * stage);
  auto stage_a = [&](int s) { return parts + rows * PROW + s * stage; };
  auto stage_w = [&](int s) { return stage_a(s) + rows * AROW; };
  auto stage_scales = [&](int s) { return (float2*)(stage_w(s) + BN * wrow); };
  // Of a's rows a thread copies and splits a chunk in every RSTEP.
  constexpr int PER = 16 / sizeof(T), CHUNKS = BK / PER, RSTEP = THREADS / CHUNKS;
  const int r0 = t / CHUNKS, c0 = t % CHUNKS * PER;
  const T* const a = (const T*)p.a + (m0 + r0) * p.arow + c0;
  auto load_a = [&](int s, int k) {
    const uint32_t to = shared_at(stage_a(s)) + r0 * AROW + c0 * (int)sizeof(T);
#pragma unroll
    for (int i = 0; i < BM; i += RSTEP)
      if (r0 + i < left) copy16(to + i * AROW, a + k + i * p.arow, k + c0 < p.k);
  };
  auto split_a = [&](int s) {
    const T* from = (const T*)(stage_a(s) + r0 * AROW) + c0;
    char* to = parts + r0 * PROW + c0 * 2;
#pragma unroll
    for (int i = 0; i < BM; i += RSTEP) {
      if (r0 + i >= left) continue;
#pragma unroll
      for (int e = 0; e < PER; e += 4) {
        uint2 x[PARTS];
        split<PARTS>(from + i * BK + e, x);
#pragma unroll
        for (int j = 0; j < PARTS; j++) *(uint2*)(to + i * PROW + (j * BK + e) * 2) = x[j];
      }
    }
  };
  // Of the columns a thread has a block's scale in every nstep, and usually the values beside it. Scales come by way of registers: ask
  // begins, put ends.
  constexpr int COLS = BN * (USUAL ? 2 : 4) / THREADS; // at most
  const int slot = t & (slots - 1), n1 = each ? t / 4 : t / 2, nstep = THREADS / slots;
  const uint8_t *w = (const uint8_t*)p.b + (n0 + n1) * q.row, *zeros = zero_at(n0 + n1, 0);
  const T* const scales = (const T*)q.scales + (i64)(n0 + n1) * q.blocks;
  auto is_column = [&](int i) { return (USUAL || n1 + i * nstep < BN) && n0 + n1 + i * nstep < p.n; };
  auto load_w = [&](int s, int k) { // what is beyond the end of a row meets zeros of a
    const uint32_t to = shared_at(stage_w(s));
    if (USUAL) {
      const int from = k / 2 + slot * 16;
#pragma unroll
      for (int i = 0; i < COLS; i++)
        if (is_column(i) && from < q.row) copy16(to + (n1 + i * nstep) * wrow + slot * 16, w + from + i * nstep * q.row, true);
      return;
    }
    const int words = BK * bits / 32;
#pragma unroll 1
    for (int v = t; v < BN * words; v += THREADS) {
      int n = v / words, c = v % words * 4, from = k * bits / 8 + c;
      if (n0 + n < p.n && from < q.row) copy4(to + n * wrow + c, (const uint8_t*)p.b + (n0 + n) * q.row + from, true);
    }
  };
  T scale[COLS];
  uint32_t zero[COLS];
  int block = 0;
  auto ask = [&](int k) {
    k += slot * (each ? 16 : 32), block = USUAL ? k >> shift : k / q.block;
#pragma unroll
    for (int i = 0; i < COLS; i++) {
      scale[i] = from_float<T>(0.f), zero[i] = 0;
      if (k >= p.k || !is_column(i)) continue;
      scale[i] = scales[i * nstep * q.blocks + block];
      if (shifted) zero[i] = __float_as_uint(to_float(((const T*)q.zeros)[(i64)(n0 + n1 + i * nstep) * q.blocks + block]));
      else if (q.zeros) zero[i] = zeros[i * nstep * q.zero_row + block * bits / 8];
    }
  };
  auto put = [&](int s) {
    float2* to = stage_scales(s) + slot * PITCH + n1;
#pragma unroll
    for (int i = 0; i < COLS; i++) {
      if (!USUAL && n1 + i * nstep >= BN) continue;
      uint32_t z = q.zeros ? zero[i] >> block * bits % 8 & ((1 << bits) - 1) : 1 << (bits - 1);
      z = shifted ? __float_as_uint(middle() - __uint_as_float(zero[i])) : Values<T>::zero(bits, z);
      to[i * nstep] = make_float2(to_float(scale[i]), __uint_as_float(z));
    }
  };
  auto meet = [&] {
    if (THREADS == 32) __syncwarp();
    else __syncthreads();
  };
  const int steps = (p.k + BK * G - 1) / (BK * G); // of each group; what is beyond the end is zeros
  auto at = [&](int i) { return (i * G + group) * BK; };
  start_next();
  if (!q.fixed) wait_for_last();
#pragma unroll 1
  for (int s = 0; s < ST - 1; s++)
    if (s < steps) load_w(s, at(s)), ask(at(s)), put(s);
  if (q.fixed) wait_for_last();
#pragma unroll 1
  for (int s = 0; s < ST - 1; s++) {
    if (s < steps) load_a(s, at(s));
    commit(); // the first has what was asked for before
  }
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    const int now = i % ST, next = (i + ST - 1) % ST;
    const bool more = i + ST - 1 < steps;
    wait_copies<ST - 2>();
    meet(); // the parts are read, and the stage that is next
    if (more) load_w(next, at(i + ST - 1)), ask(at(i + ST - 1)), load_a(next, at(i + ST - 1));
    commit();
    split_a(now);
    meet();
    const char* ws = stage_w(now) + (wn + lane / 4) * wrow + lane % 4 * bits / 2;
    const float2* ss = stage_scales(now) + wn + lane / 4;
#pragma unroll(USUAL && TR == 1 ? BK / 32 : 1)
    for (int k = 0; k < BK; k += 32) {
      uint32_t w[2][TC][4];
      float2 by[2][TC][2]; // of 16 of the inner axis, of a column
#pragma unroll
      for (int s = 0; s < 2; s++)
#pragma unroll
        for (int c = 0; c < TC; c++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float2 v = by[s][c][e] = ss[(each ? k / 16 + s : k / 32) * PITCH + c * 16 + e * 8];
            Values<T>::four(bits, ws + (c * 16 + e * 8) * wrow + (k + 16 * s) * bits / 8,
                            shifted ? Values<T>::zero(bits, 1 << (bits - 1)) : __float_as_uint(v.y), w[s][c][e], w[s][c][2 + e]);
          }
#pragma unroll
      for (int r = 0; r < TR; r++) {
        const char* as = parts + min(wm + r * 8 + lane / 4, rows - 1) * PROW + k * 2 + lane % 4 * 8;
        float part[TC][4] = {}, all[4] = {}; // all: of a alone
#pragma unroll
        for (int s = 0; s < 2; s++) {
          uint2 x[PARTS];
#pragma unroll
          for (int i = 0; i < PARTS; i++) x[i] = *(const uint2*)(as + (i * BK + 16 * s) * 2);
#pragma unroll
          for (int i = PARTS - 1; i >= 0; i--)
#pragma unroll
            for (int c = 0; c < TC; c++) mma<Half>(part[c], w[s][c], x[i].x, x[i].y);
          if (shifted) {
            const uint32_t one = pack2<Half>(1.f, 1.f), ones[4] = {one, one, one, one};
#pragma unroll
            for (int i = PARTS - 1; i >= 0; i--) mma<Half>(all, ones, x[i].x, x[i].y);
          }
          if (s == 0 && !each) continue;
#pragma unroll
          for (int c = 0; c < TC; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
              float2 v = by[s][c][e / 2];
              float& sum = sums[2 * r + e % 2][2 * c + e / 2];
              if (shifted) part[c][e] = fmaf(all[e], v.y, part[c][e]);
              sum = fmaf(part[c][e], v.x, sum), part[c][e] = 0.f;
            }
#pragma unroll
          for (int e = 0; e < 4; e++) all[e] = 0.f;
        }
      }
    }
    if (more) put(next);
  }
  wait_copies<0>();
  __syncthreads();
}

// join adds the groups' sums to those of the first.
template <class T_, int PARTS_, int BM_, int BN_, int WM_, int WN_, int G_>
DI void Tile<T_, PARTS_, BM_, BN_, WM_, WN_, G_>::join() {
  extern __shared__ __align__(128) char sm[];
  constexpr int N = 4 * TR * TC;
  float* others = (float*)sm + t;
  if (group > 0) {
#pragma unroll
    for (int i = 0; i < N; i++) others[((group - 1) * N + i) * THREADS] = sums[i / (2 * TC)][i % (2 * TC)];
  }
  __syncthreads();
  if (group > 0) return;
#pragma unroll 1
  for (int o = 0; o < G - 1; o++)
#pragma unroll
    for (int i = 0; i < N; i++) sums[i / (2 * TC)][i % (2 * TC)] += others[(o * N + i) * THREADS];
}

// exactly adds sums up again that are not finite: a float is not, or is so large that the sum of its parts' products was not.
template <class T_, int PARTS_, int BM_, int BN_, int WM_, int WN_, int G_>
DI void Tile<T_, PARTS_, BM_, BN_, WM_, WN_, G_>::exactly() {
  extern __shared__ __align__(128) char sm[];
  const Product& p = q.p;
  float odd = 0.f, *slots = (float*)sm + (G - 1) * 4 * TR * TC * THREADS + t;
#pragma unroll
  for (int i = 0; i < 4 * TR * TC; i++) odd = fmaf(sums[i / (2 * TC)][i % (2 * TC)], 0.f, odd);
  if (odd == 0.f) return;
#pragma unroll
  for (int i = 0; i < 4 * TR * TC; i++) slots[i * THREADS] = sums[i / (2 * TC)][i % (2 * TC)];
#pragma unroll 1
  for (int i = 0; i < 4 * TR * TC; i++) {
    int r = row(i / (2 * TC)), c = col(i % (2 * TC));
    if (fabsf(slots[i * THREADS]) <= 3.402823466e38f || r >= p.m || c >= p.n) continue;
    float sum = 0.f;
#pragma unroll 1
    for (int k = 0; k < p.k; k++) {
      const int block = k / q.block;
      float z = middle(), v = ((const uint8_t*)p.b)[c * q.row + k * q.bits / 8] >> k * q.bits % 8 & ((1 << q.bits) - 1);
      if (q.zeros && !q.packed) z = to_float(((const T*)q.zeros)[(i64)c * q.blocks + block]);
      else if (q.zeros) z = *zero_at(c, block) >> block * q.bits % 8 & ((1 << q.bits) - 1);
      sum = fmaf(to_float(((const T*)p.a)[r * p.arow + k]), (v - z) * to_float(((const T*)q.scales)[(i64)c * q.blocks + block]), sum);
    }
    slots[i * THREADS] = sum;
  }
#pragma unroll
  for (int i = 0; i < 4 * TR * TC; i++) sums[i / (2 * TC)][i % (2 * TC)] = slots[i * THREADS];
}

template <class Tile> DI void bits_product(const BitsProduct& q) {
  extern __shared__ __align__(128) char sm[];
  typedef typename Tile::T T;
  const Product& p = q.p;
  Tile s{q};
  if (q.bits == 4 && q.block >= 32 && (q.block & (q.block - 1)) == 0 && (q.packed || !q.zeros)) s.template add<true>();
  else s.template add<false>();
  if (Tile::G > 1) s.join();
  if (s.group > 0) return;
  s.exactly();
  if (Tile::G > 1) __syncthreads();
  complete<T, 2 * Tile::TR, 2 * Tile::TC, Tile::THREADS>(p, s.sums, (float*)sm, [&](int j) { return s.col(j); });
#pragma unroll
  for (int i = 0; i < 2 * Tile::TR; i++) {
    const i64 first = (i64)s.row(i) * p.n;
#pragma unroll
    for (int j = 0; j < 2 * Tile::TC; j++) {
      if (s.row(i) >= p.m || s.col(j) >= p.n) continue;
      i64 at = first + s.col(j);
      float v = s.sums[i][j];
      if (p.residual) v += to_float(((const T*)p.residual)[at]);
      ((T*)p.y)[at] = from_float<T>(v);
    }
  }
}

// unpack_bits makes floats of a matrix of values of a few bits, for the products of floats: [k,n], or for tf32 [n,k]. A block has 32 columns
// of the result and 64 of the inner axis, a thread 8 of a column, which are of one block.
struct UnpackBits {
  void *w, *scales, *zeros, *y; // as BitsProduct has them
  i64 row, zero_row;
  int n, k, block, blocks, bits, packed;
};
template <class T, bool TF32> DI void unpack_bits(const UnpackBits& p) {
  __shared__ float tile[64][33];
  const int t = threadIdx.x, n = blockIdx.x * 32 + t / 8, k0 = blockIdx.y * 64, k = k0 + t % 8 * 8;
  if (n < p.n && k < p.k) {
    const int block = k / p.block, mask = (1 << p.bits) - 1;
    const i64 at = (i64)n * p.blocks + block;
    float scale = to_float(((const T*)p.scales)[at]), zero = 1 << (p.bits - 1);
    if (p.zeros && p.packed) zero = ((const uint8_t*)p.zeros)[n * p.zero_row + block * p.bits / 8] >> block * p.bits % 8 & mask;
    else if (p.zeros) zero = to_float(((const T*)p.zeros)[at]);
    const uint16_t* from = (const uint16_t*)((const uint8_t*)p.w + n * p.row + k * p.bits / 8);
    uint64_t values = 0;
    for (int i = 0; i < p.bits / 2; i++) values |= (uint64_t)from[i] << 16 * i;
    float x[8];
#pragma unroll
    for (int e = 0; e < 8; e++, values >>= p.bits) x[e] = ((float)((int)values & mask) - zero) * scale;
    if (TF32) {
#pragma unroll
      for (int e = 0; e < 8; e++) x[e] = __uint_as_float(round_tf32(__float_as_uint(x[e])));
      float4* y = (float4*)((float*)p.y + (i64)n * p.k + k);
      y[0] = make_float4(x[0], x[1], x[2], x[3]), y[1] = make_float4(x[4], x[5], x[6], x[7]);
    } else {
#pragma unroll
      for (int e = 0; e < 8; e++) tile[t % 8 * 8 + e][t / 8] = x[e];
    }
  }
  if (TF32) return;
  __syncthreads();
  const int col = blockIdx.x * 32 + t % 32;
#pragma unroll
  for (int i = t / 32; i < 64; i += 8)
    if (k0 + i < p.k && col < p.n) ((T*)p.y)[(i64)(k0 + i) * p.n + col] = from_float<T>(tile[i][t % 32]);
}
#define UNPACK(name, T, TF32) \
  KERNEL __launch_bounds__(256) void unpack_bits_##name(const __grid_constant__ UnpackBits p) { unpack_bits<T, TF32>(p); }
UNPACK(f32, float, false)
UNPACK(f16, __half, false)
UNPACK(bf16, __nv_bfloat16, false)
UNPACK(tf32, float, true)

#define BITS_AS(name, T, PARTS, BM, BN, ...)                                                           \
  KERNEL __launch_bounds__(256) void bits_##name##_##BM##x##BN(const __grid_constant__ BitsProduct q) { \
    bits_product<Tile<T, PARTS, BM, BN, __VA_ARGS__>>(q);                                               \
  }
#define BITS(BM, BN, ...)                            \
  BITS_AS(f32, float, 3, BM, BN, __VA_ARGS__)        \
  BITS_AS(f16, __half, 1, BM, BN, __VA_ARGS__)       \
  BITS_AS(bf16, __nv_bfloat16, 1, BM, BN, __VA_ARGS__)
BITS(8, 16, 8, 16, 8)
BITS(8, 32, 8, 32, 8)
BITS(32, 32, 32, 16, 4)
BITS(64, 64, 32, 32, 2)
BITS_AS(f32, float, 3, 128, 128, 32, 64, 1)
