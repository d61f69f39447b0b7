// Kernels that go over rows, a warp each: norms, embeddings, softmax, reductions.
#include "common.cuh"

// A row of up to HELD elements stays in registers between the passes over it, where it is read by fours; of another one each
// pass reads it again.
const int HELD = 1024;

struct Norm {
  void *x, *residual, *scale, *bias, *y, *sum; // all but x and y may be null
  int rows, cols, rms, vector;                 // vector: rows of whole fours, aligned to them
  float eps;
};

template <class T> DI float value(const T* x, const T* r, i64 i) { return to_float(x[i]) + (r ? to_float(r[i]) : 0.f); }

// row_norm normalises the elements that fetch(i) gives, and calls put(i, value) for each.
template <bool VECTOR, class Fetch, class Put> DI void row_norm(int cols, bool rms, float eps, int lane, Fetch fetch, Put put) {
  const int STEP = VECTOR ? 4 : 1, ROUNDS = HELD / 32 / STEP;
  float v[ROUNDS][STEP], s = 0.f, q = 0.f;
  if (VECTOR && cols <= HELD) {
#pragma unroll
    for (int j = 0; j < ROUNDS; j++) {
      int i = (j * 32 + lane) * STEP;
#pragma unroll
      for (int e = 0; e < STEP; e++) v[j][e] = 0.f;
      if (i < cols) fetch(i, v[j]);
#pragma unroll
      for (int e = 0; e < STEP; e++) s += v[j][e];
    }
    float mean = rms ? 0.f : warp_sum(s) / cols;
#pragma unroll
    for (int j = 0; j < ROUNDS; j++)
      if ((j * 32 + lane) * STEP < cols) {
#pragma unroll
        for (int e = 0; e < STEP; e++) v[j][e] -= mean, q += v[j][e] * v[j][e];
      }
    float r = rsqrtf(warp_sum(q) / cols + eps);
#pragma unroll
    for (int j = 0; j < ROUNDS; j++) {
      int i = (j * 32 + lane) * STEP;
#pragma unroll
      for (int e = 0; e < STEP; e++) v[j][e] *= r;
      if (i < cols) put(i, v[j]);
    }
    return;
  }
  float w[STEP];
  if (!rms)
    for (int i = lane * STEP; i < cols; i += 32 * STEP) {
      fetch(i, w);
#pragma unroll
      for (int e = 0; e < STEP; e++) s += w[e];
    }
  float mean = rms ? 0.f : warp_sum(s) / cols;
  for (int i = lane * STEP; i < cols; i += 32 * STEP) {
    fetch(i, w);
#pragma unroll
    for (int e = 0; e < STEP; e++) q += (w[e] - mean) * (w[e] - mean);
  }
  float r = rsqrtf(warp_sum(q) / cols + eps);
  for (int i = lane * STEP; i < cols; i += 32 * STEP) {
    fetch(i, w);
#pragma unroll
    for (int e = 0; e < STEP; e++) w[e] = (w[e] - mean) * r;
    put(i, w);
  }
}

template <class T> DI void fetch_one(float (&v)[1], const T* p) { v[0] = to_float(*p); }
template <class T> DI void fetch_one(float (&v)[4], const T* p) { load4(v, p); }
template <class T> DI void put_one(T* p, const float (&v)[1]) { *p = from_float<T>(v[0]); }
template <class T> DI void put_one(T* p, const float (&v)[4]) { store4(p, v); }

// affine writes v·scale + bias.
template <class T, int N> DI void affine(T* y, const T* scale, const T* bias, int i, float (&v)[N]) {
  float g[N];
  if (scale) {
    fetch_one(g, scale + i);
#pragma unroll
    for (int e = 0; e < N; e++) v[e] *= g[e];
  }
  if (bias) {
    fetch_one(g, bias + i);
#pragma unroll
    for (int e = 0; e < N; e++) v[e] += g[e];
  }
  put_one(y + i, v);
}

template <class T, bool VECTOR> DI void norm_row(const Norm& p, int row, int lane) {
  const int N = VECTOR ? 4 : 1;
  const T *x = (const T*)p.x + (i64)row * p.cols, *residual = p.residual ? (const T*)p.residual + (i64)row * p.cols : nullptr;
  T *y = (T*)p.y + (i64)row * p.cols, *sum = p.sum ? (T*)p.sum + (i64)row * p.cols : nullptr;
  auto fetch = [&](int i, float (&v)[N]) {
    fetch_one(v, x + i);
    if (residual) {
      float r[N];
      fetch_one(r, residual + i);
#pragma unroll
      for (int e = 0; e < N; e++) v[e] += r[e];
    }
    if (sum) put_one(sum + i, v);
  };
  row_norm<VECTOR>(p.cols, p.rms, p.eps, lane, fetch, [&](int i, float (&v)[N]) { affine(y, (const T*)p.scale, (const T*)p.bias, i, v); });
}
template <class T> DI void norm_rows(const Norm& p) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  if (p.vector) norm_row<T, true>(p, row, lane);
  else norm_row<T, false>(p, row, lane);
}
KERNEL __launch_bounds__(128) void norm_f32(const __grid_constant__ Norm p) { norm_rows<float>(p); }
KERNEL __launch_bounds__(128) void norm_f16(const __grid_constant__ Norm p) { norm_rows<__half>(p); }
KERNEL __launch_bounds__(128) void norm_bf16(const __grid_constant__ Norm p) { norm_rows<__nv_bfloat16>(p); }

const int MAX_TABLES = 6;
struct Embedding {
  void *scale, *bias, *y;
  int rows, cols, rms, vector, tables, positions;
  float eps;
  struct Table {
    void *at, *index; // null: by position, or the only row
    Status* status;
    i64 size;
    int kind, pad;
  } table[MAX_TABLES];
};
template <class T, bool VECTOR> DI void embed_row(const Embedding& p, int row, int lane) {
  const int N = VECTOR ? 4 : 1;
  const T* part[MAX_TABLES];
#pragma unroll
  for (int t = 0; t < MAX_TABLES; t++) {
    if (t >= p.tables) break;
    const Embedding::Table& q = p.table[t];
    i64 at = q.size == 1 ? 0 : row % p.positions;
    if (q.index) {
      at = index_at(q.index, q.kind, row);
      if (!in_range(at, q.size, q.status)) at = 0;
    }
    part[t] = (const T*)q.at + at * p.cols;
  }
  auto fetch = [&](int i, float (&v)[N]) {
#pragma unroll
    for (int e = 0; e < N; e++) v[e] = 0.f;
#pragma unroll
    for (int t = 0; t < MAX_TABLES; t++) {
      if (t >= p.tables) break;
      float w[N];
      fetch_one(w, part[t] + i);
#pragma unroll
      for (int e = 0; e < N; e++) v[e] += w[e];
    }
  };
  T* y = (T*)p.y + (i64)row * p.cols;
  row_norm<VECTOR>(p.cols, p.rms, p.eps, lane, fetch, [&](int i, float (&v)[N]) { affine(y, (const T*)p.scale, (const T*)p.bias, i, v); });
}
template <class T> DI void embed_rows(const Embedding& p) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  if (p.vector) embed_row<T, true>(p, row, lane);
  else embed_row<T, false>(p, row, lane);
}
KERNEL __launch_bounds__(128) void embed_f32(const __grid_constant__ Embedding p) { embed_rows<float>(p); }
KERNEL __launch_bounds__(128) void embed_f16(const __grid_constant__ Embedding p) { embed_rows<__half>(p); }
KERNEL __launch_bounds__(128) void embed_bf16(const __grid_constant__ Embedding p) { embed_rows<__nv_bfloat16>(p); }

DI float load_float(const void* p, int kind, i64 i) {
  switch (kind) {
  case F16: return __half2float(((const __half*)p)[i]);
  case BF16: return __bfloat162float(((const __nv_bfloat16*)p)[i]);
  }
  return ((const float*)p)[i];
}
DI void store_float(void* p, int kind, i64 i, float v) {
  switch (kind) {
  case F16: ((__half*)p)[i] = __float2half_rn(v); break;
  case BF16: ((__nv_bfloat16*)p)[i] = __float2bfloat16_rn(v); break;
  default: ((float*)p)[i] = v;
  }
}

// softmax along an axis of size elements that lie step apart.
struct Softmax {
  void *x, *y;
  i64 rows, step;
  int size, kind, log, pad;
};
KERNEL __launch_bounds__(128) void softmax(const __grid_constant__ Softmax p) {
  i64 row = blockIdx.x * 4ll + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step;
  float m = -INFINITY, s = 0.f;
  for (int i = lane; i < p.size; i += 32) m = fmaxf(m, load_float(p.x, p.kind, at + i * p.step));
  m = warp_max(m);
  for (int i = lane; i < p.size; i += 32) s += expf(load_float(p.x, p.kind, at + i * p.step) - m);
  s = warp_sum(s);
  for (int i = lane; i < p.size; i += 32) {
    float v = load_float(p.x, p.kind, at + i * p.step) - m;
    store_float(p.y, p.kind, at + i * p.step, p.log ? v - logf(s) : expf(v) / s);
  }
}

// Reductions, in the order of ir.Reduction.
enum Reduction { NONE, SUM, MEAN, MAX_OF, MIN_OF, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE };
struct Reduce {
  void *x, *y;
  int count, inner, fn, kind; // results, and elements for each
  int rank, inner_rank;
  int size[MAX_RANK], inner_size[MAX_RANK];
  i64 stride[MAX_RANK], inner_stride[MAX_RANK]; // of x
};
DI i64 walk(int rank, const int* size, const i64* stride, uint32_t n) {
  i64 at = 0;
  for (int k = rank - 1; k >= 0; k--) {
    uint32_t c = n;
    if (k > 0) c = n % size[k], n /= size[k];
    at += c * stride[k];
  }
  return at;
}
DI i64 load_int(const void* p, int kind, i64 i) {
  switch (kind) {
  case I64: return ((const i64*)p)[i];
  case I32: return ((const int*)p)[i];
  case I8: return ((const int8_t*)p)[i];
  }
  return ((const uint8_t*)p)[i];
}
DI void store_int(void* p, int kind, i64 i, i64 v) {
  switch (kind) {
  case I64: ((i64*)p)[i] = v; break;
  case I32: ((int*)p)[i] = (int)v; break;
  default: ((uint8_t*)p)[i] = (uint8_t)v;
  }
}
DI float combine(int fn, float a, float b) {
  switch (fn) {
  case MAX_OF: return a != a || a > b ? a : b;
  case MIN_OF: return a != a || a < b ? a : b;
  case PROD: return a * b;
  }
  return a + b;
}
DI i64 combine_int(int fn, i64 a, i64 b) {
  switch (fn) {
  case MAX_OF: return a > b ? a : b;
  case MIN_OF: return a < b ? a : b;
  case PROD: return a * b;
  }
  return a + b;
}
KERNEL __launch_bounds__(128) void reduce(const __grid_constant__ Reduce p) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.count) return;
  i64 from = walk(p.rank, p.size, p.stride, row);
  if (p.kind > BF16) {
    i64 s = p.fn == PROD ? 1 : p.fn == MAX_OF ? -0x7fffffffffffffffll - 1 : p.fn == MIN_OF ? 0x7fffffffffffffffll : 0;
    for (int i = lane; i < p.inner; i += 32) s = combine_int(p.fn, s, load_int(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i)));
    for (int i = 16; i; i >>= 1) s = combine_int(p.fn, s, __shfl_xor_sync(~0u, s, i));
    if (p.fn == MEAN) s = p.inner ? s / p.inner : 0;
    if (lane == 0) store_int(p.y, p.kind, row, s);
    return;
  }
  float m = 0.f;
  if (p.fn == LOG_SUM_EXP) {
    m = -INFINITY;
    for (int i = lane; i < p.inner; i += 32) m = fmaxf(m, load_float(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i)));
    m = warp_max(m);
    if (isinf(m)) {
      if (lane == 0) store_float(p.y, p.kind, row, m);
      return;
    }
  }
  float s = p.fn == PROD ? 1.f : p.fn == MAX_OF ? -INFINITY : p.fn == MIN_OF ? INFINITY : 0.f;
  for (int i = lane; i < p.inner; i += 32) {
    float v = load_float(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i));
    switch (p.fn) {
    case L1: v = fabsf(v); break;
    case L2: case SUM_SQUARE: v = v * v; break;
    case LOG_SUM_EXP: v = expf(v - m); break;
    }
    s = combine(p.fn, s, v);
  }
#pragma unroll
  for (int i = 16; i; i >>= 1) s = combine(p.fn, s, __shfl_xor_sync(~0u, s, i));
  switch (p.fn) {
  case MEAN: s /= p.inner; break;
  case L2: s = sqrtf(s); break;
  case LOG_SUM: s = logf(s); break;
  case LOG_SUM_EXP: s = m + logf(s); break;
  }
  if (lane == 0) store_float(p.y, p.kind, row, s);
}

// cumsum and argmax go along an axis of size elements that lie step apart, a thread a line.
struct Line {
  void *x, *y;
  i64 rows, step;
  int size, kind, exclusive, reverse, smallest, last;
};
KERNEL __launch_bounds__(128) void cumsum(const __grid_constant__ Line p) {
  i64 row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step, step = p.step;
  if (p.reverse) at += (p.size - 1) * step, step = -step;
  float s = 0.f;
  i64 n = 0;
  for (int i = 0; i < p.size; i++, at += step) {
    if (p.kind <= BF16) {
      float v = load_float(p.x, p.kind, at);
      store_float(p.y, p.kind, at, p.exclusive ? s : s + v);
      s += v;
    } else {
      i64 v = load_int(p.x, p.kind, at);
      store_int(p.y, p.kind, at, p.exclusive ? n : n + v);
      n += v;
    }
  }
}
KERNEL __launch_bounds__(128) void argmax(const __grid_constant__ Line p) {
  i64 row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step;
  i64 best = 0;
  if (p.kind <= BF16) {
    float top = load_float(p.x, p.kind, at);
    for (int i = 1; i < p.size; i++) {
      float v = load_float(p.x, p.kind, at + i * p.step);
      bool less = p.smallest ? v < top : top < v, same = !(v < top) && !(top < v);
      if (less || p.last && same) best = i, top = v;
    }
  } else {
    i64 top = load_int(p.x, p.kind, at);
    for (int i = 1; i < p.size; i++) {
      i64 v = load_int(p.x, p.kind, at + i * p.step);
      if ((p.smallest ? v < top : top < v) || p.last && v == top) best = i, top = v;
    }
  }
  ((i64*)p.y)[row] = best;
}

// rotary turns pairs of a head's elements: x [B,S,H,D] by strides, cosines and sines [1 or B,S,half], y row-major.
struct Rotary {
  void *x, *cosine, *sine, *y;
  i64 total, stride[4], angles; // rows of angles
  int length, heads, size, half, interleaved, kind;
};
KERNEL __launch_bounds__(256) void rotary(const __grid_constant__ Rotary p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    int e = n % p.size;
    i64 rest = n / p.size, head = rest % p.heads, position = rest / p.heads;
    i64 at = position / p.length * p.stride[0] + position % p.length * p.stride[1] + head * p.stride[2];
    float v = load_float(p.x, p.kind, at + e * p.stride[3]);
    if (e < 2 * p.half) {
      bool lower = p.interleaved ? e % 2 == 0 : e < p.half;
      int j = p.interleaved ? e / 2 : e % p.half, other = p.interleaved ? e ^ 1 : lower ? e + p.half : e - p.half;
      i64 angle = position % p.angles * p.half + j;
      float turned = load_float(p.sine, p.kind, angle) * load_float(p.x, p.kind, at + other * p.stride[3]);
      v = load_float(p.cosine, p.kind, angle) * v + (lower ? -turned : turned);
    }
    store_float(p.y, p.kind, n, v);
  }
}
