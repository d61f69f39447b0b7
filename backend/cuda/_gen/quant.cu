// Quantised values: dynamic quantisation, products of 8-bit values in exact int32 on the ordinary cores, and products by weights of
// 2, 4 and 8 bits in blocks.
#include "quant.cuh"

// dynamic_range leaves the range of each block's elements in parts; dynamic_quantize puts the parts, of which there are at most 256,
// together and quantises.
struct Dynamic {
  float* x;
  float2* parts;
  uint8_t* y;
  float* scale;
  uint8_t* zero;
  i64 n;
  int groups, pad;
};
KERNEL __launch_bounds__(256) void dynamic_range(const __grid_constant__ Dynamic p) {
  float2 r = make_float2(0.f, 0.f);
#pragma unroll 4
  for (i64 i = blockIdx.x * 256ll + threadIdx.x; i < p.n; i += gridDim.x * 256ll) r = wider(r, p.x[i], p.x[i]);
  r = block_range(r);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = r;
}
KERNEL __launch_bounds__(256) void dynamic_quantize(const __grid_constant__ Dynamic p) {
  float2 r = make_float2(0.f, 0.f);
  if (threadIdx.x < p.groups) r = p.parts[threadIdx.x];
  r = block_range(r);
  Step s = step_of(r);
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.scale = s.scale, *p.zero = (uint8_t)s.zero;
#pragma unroll 4
  for (i64 i = blockIdx.x * 256ll + threadIdx.x; i < p.n; i += gridDim.x * 256ll) p.y[i] = (uint8_t)code(p.x[i] / s.scale, s.zero, 0.f, 255.f);
}

// qproduct takes operands of any sizes and zero points: they are subtracted before the values meet. A block of 256 threads has
// 64 × 64 results, a thread 4 × 4.
KERNEL __launch_bounds__(256) void qproduct(const __grid_constant__ QProduct p) {
  const int BK = 16, PITCH = 68;
  __shared__ __align__(16) int as[BK * PITCH], bs[BK * PITCH];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
  const uint8_t *a = (const uint8_t*)p.a + blockIdx.z * p.alead, *b = (const uint8_t*)p.b + blockIdx.z * p.blead;
  const int zero = p.by_row ? 0 : zero_of(p, p.a_signed, 0); // of all rows
  int sums[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += BK) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int v = i * 256 + t, r = v / BK, c = v % BK;
      as[c * PITCH + r] = m0 + r < p.m && k0 + c < p.k ? value_at(a, p.a_signed, (i64)(m0 + r) * p.k + k0 + c) - (p.by_row ? zero_of(p, p.a_signed, m0 + r) : zero) : 0;
      // Neighbours read what is adjacent.
      r = p.brow == 1 ? v % BK : v / 64, c = p.brow == 1 ? v / BK : v % 64;
      int x = 0;
      if (k0 + r < p.k && n0 + c < p.n) {
        x = value_at(b, p.b_signed, (k0 + r) * p.brow + (n0 + c) * p.bcol);
        if (p.b_zero) x -= value_at(p.b_zero, p.b_signed, p.zero_step * (n0 + c));
      }
      bs[r * PITCH + c] = x;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < BK; c++) {
      int4 x = *(const int4*)&as[c * PITCH + ty * 4], y = *(const int4*)&bs[c * PITCH + tx * 4];
      const int *u = (const int*)&x, *w = (const int*)&y;
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sums[i][j] += u[i] * w[j];
    }
    __syncthreads();
  }
  int* mine = as + t; // the sums go by way of shared memory, so that there is one copy of what finishes them
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) mine[j * 256] = sums[i][j];
    int row = m0 + ty * 4 + i;
#pragma unroll 1
    for (int j = 0; j < 4; j++) {
      int col = n0 + tx * 4 + j;
      if (row < p.m && col < p.n) finish(p, mine[j * 256], (i64)blockIdx.z * p.m + row, col);
    }
  }
}

// round_blocks rounds blocks of a row to 127ths of their largest magnitude, a warp each.
struct Round {
  float *x, *y;
  int rows, k, block, blocks;
};
KERNEL __launch_bounds__(256) void round_blocks(const __grid_constant__ Round p) {
  i64 w = blockIdx.x * 8ll + threadIdx.x / 32;
  int row = w / p.blocks, first = w % p.blocks * p.block, end = min(first + p.block, p.k);
  if (row >= p.rows) return;
  const float* x = p.x + (i64)row * p.k;
  float top = 0.f;
  for (int i = first + threadIdx.x % 32; i < end; i += 32) top = fmaxf(top, fabsf(x[i]));
  top = warp_max(top);
  float scale = top / 127.f, inverse = top > 0.f ? 127.f / top : 0.f;
  for (int i = first + threadIdx.x % 32; i < end; i += 32) p.y[(i64)row * p.k + i] = rintf(x[i] * inverse) * scale;
}

// y[m,n] = act(a·wᵀ + bias) + residual. A row of w has the values of a column of the result, packed, in whole words, none of which has
// values of two blocks; w = (value − zero)·scale.
struct Bits {
  void *a, *w, *scales, *zeros, *bias, *residual, *y; // zeros: packed as w, or of a's type; zeros, bias and residual may be null
  i64 row, zero_row;                                  // bytes
  int m, n, k, block, blocks, bits, act, packed;
};
// A block of 256 threads has SIDE × SIDE results, a thread SIDE/16 of the rows and of the columns; BK of the inner axis are a step.
template <class T, int SIDE, int BK> DI void bits_product(const Bits& p) {
  const int PITCH = SIDE + 4, TM = SIDE / 16;
  __shared__ __align__(16) float as[BK * PITCH], ws[BK * PITCH];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16, m0 = blockIdx.y * SIDE, n0 = blockIdx.x * SIDE;
  const T *a = (const T*)p.a, *scales = (const T*)p.scales;
  const int per = 32 / p.bits, mask = (1 << p.bits) - 1;
  float sums[TM][TM] = {};
  for (int k0 = 0; k0 < p.k; k0 += BK) {
#pragma unroll
    for (int i = 0; i < SIDE * BK / 256; i++) {
      int v = i * 256 + t, r = v / BK, c = v % BK;
      as[c * PITCH + r] = m0 + r < p.m && k0 + c < p.k ? to_float(a[(i64)(m0 + r) * p.k + k0 + c]) : 0.f;
    }
#pragma unroll 4
    for (int v = t; v < SIDE * BK / per; v += 256) { // words; neighbours write neighbouring columns
      int col = v % SIDE, k = k0 + v / SIDE * per, n = n0 + col;
      uint32_t word = 0;
      float scale = 0.f, zero = 0.f;
      if (n < p.n && k < p.k) {
        int block = k / p.block;
        word = *(const uint32_t*)((const uint8_t*)p.w + n * p.row + k * p.bits / 8);
        scale = to_float(scales[(i64)n * p.blocks + block]);
        if (!p.zeros) zero = (float)(1 << (p.bits - 1));
        else if (p.packed) zero = (float)(((const uint8_t*)p.zeros)[n * p.zero_row + block * p.bits / 8] >> block * p.bits % 8 & mask);
        else zero = to_float(((const T*)p.zeros)[(i64)n * p.blocks + block]);
      }
      for (int j = 0; j < per; j++, word >>= p.bits)
        ws[(k - k0 + j) * PITCH + col] = k + j < p.k ? to_float(from_float<T>(((float)(word & mask) - zero) * scale)) : 0.f;
    }
    __syncthreads();
#pragma unroll 32
    for (int c = 0; c < BK; c++) {
      __align__(16) float x[TM], y[TM];
      if constexpr (TM == 4) *(float4*)x = *(const float4*)&as[c * PITCH + ty * TM], *(float4*)y = *(const float4*)&ws[c * PITCH + tx * TM];
      else x[0] = as[c * PITCH + ty], y[0] = ws[c * PITCH + tx];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TM; j++) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
    }
    __syncthreads();
  }
  float* mine = ws + t;
#pragma unroll
  for (int i = 0; i < TM; i++) {
#pragma unroll
    for (int j = 0; j < TM; j++) mine[j * 256] = sums[i][j];
    int row = m0 + ty * TM + i;
#pragma unroll 1
    for (int j = 0; j < TM; j++) {
      int col = n0 + tx * TM + j;
      if (row >= p.m || col >= p.n) continue;
      i64 at = (i64)row * p.n + col;
      float v = mine[j * 256];
      if (p.bias) v += to_float(((const T*)p.bias)[col]);
      v = activate(p.act, v);
      if (p.residual) v += to_float(((const T*)p.residual)[at]);
      ((T*)p.y)[at] = from_float<T>(v);
    }
  }
}
#define BITS(name, T)                                                                                                              \
  KERNEL __launch_bounds__(256) void bits_##name##_16(const __grid_constant__ Bits p) { bits_product<T, 16, 128>(p); }                   \
  KERNEL __launch_bounds__(256) void bits_##name##_64(const __grid_constant__ Bits p) { bits_product<T, 64, 64>(p); }
BITS(f32, float)
BITS(f16, __half)
BITS(bf16, __nv_bfloat16)
