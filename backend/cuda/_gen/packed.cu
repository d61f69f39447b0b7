// Dynamic quantisation of concatenated sequences: each has the range, scale and zero point that it has alone.
#include "quant.cuh"

// A row of four numbers is a sequence: the first and the end of its tokens, and of those whose range it has.
struct QuantizeSequences {
  float* x;       // [tokens,width]
  float2* ranges; // PARTS for each sequence
  uint8_t* y;
  float* scale;   // for each token, 0 where it is of no sequence
  uint8_t* zero;
  int4* rows;
  int tokens, width, sequences, vector; // vector: tokens are whole fours, aligned to them
};
const int PARTS = 32; // of a sequence

KERNEL __launch_bounds__(256) void sequence_ranges(const __grid_constant__ QuantizeSequences p) {
  int4 row = p.rows[blockIdx.x / PARTS];
  i64 end = (i64)min(row.w, p.tokens) * p.width;
  float2 r = make_float2(0.f, 0.f);
#pragma unroll 4
  for (i64 i = (i64)max(row.z, 0) * p.width + blockIdx.x % PARTS * 256 + threadIdx.x; i < end; i += PARTS * 256) r = wider(r, p.x[i], p.x[i]);
  r = block_range(r);
  if (threadIdx.x == 0) p.ranges[blockIdx.x] = r;
}

// A block quantises eight tokens, a warp each.
KERNEL __launch_bounds__(256) void quantize_sequences(const __grid_constant__ QuantizeSequences p) {
  __shared__ int sequence[8];
  const int t0 = blockIdx.x * 8, warp = threadIdx.x / 32, lane = threadIdx.x % 32, token = t0 + warp;
  if (threadIdx.x < 8) sequence[threadIdx.x] = -1;
  __syncthreads();
  for (int r = threadIdx.x; r < p.sequences; r += 256) {
    int4 row = p.rows[r];
    for (int i = max(row.x, t0); i < min(row.y, t0 + 8); i++) sequence[i - t0] = r;
  }
  __syncthreads();
  if (token >= p.tokens) return;
  Step s = {0.f, 0.f};
  if (sequence[warp] >= 0) {
    float2 r = p.ranges[sequence[warp] * PARTS + lane];
#pragma unroll
    for (int d = 16; d; d /= 2) r = wider(r, __shfl_xor_sync(~0u, r.x, d), __shfl_xor_sync(~0u, r.y, d));
    s = step_of(r);
  }
  if (lane == 0) p.scale[token] = s.scale, p.zero[token] = (uint8_t)s.zero;
  const float* x = p.x + (i64)token * p.width;
  uint8_t* y = p.y + (i64)token * p.width;
  auto value = [&](float x) { return s.scale == 0.f ? 0 : (uint8_t)code(x / s.scale, s.zero, 0.f, 255.f); };
  if (p.vector) {
#pragma unroll 4
    for (int i = lane * 4; i < p.width; i += 128) {
      float4 v = *(const float4*)(x + i);
      *(uchar4*)(y + i) = make_uchar4(value(v.x), value(v.y), value(v.z), value(v.w));
    }
  } else {
    for (int i = lane; i < p.width; i += 32) y[i] = value(x[i]);
  }
}
